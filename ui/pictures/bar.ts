import { ADDRESS_STATES, type AddressState, STATE_SWATCHES } from "./states.ts";

export type StateCounts = Readonly<Record<AddressState, bigint>>;

export interface BarSegment {
  readonly state: AddressState;
  readonly count: bigint;
  /** In pixels, as the width. */
  readonly x: number;
  readonly width: number;
}

/** A line of one pixel between two wide segments is overlooked. */
const SEGMENT_MIN_PX = 2;

/**
 * Divides a bar of `widthPx` (whole) pixels between the states that have addresses, in the order of ADDRESS_STATES. One
 * address in 2^64 can still be seen; the widths add up exactly to `widthPx`. Without any address, all of it is free.
 */
export function barSegments(counts: StateCounts, widthPx: number): BarSegment[] {
  const shown = ADDRESS_STATES.filter((state) => counts[state] > 0n);
  if (shown.length === 0) return [{ state: "free", count: 0n, x: 0, width: widthPx }];
  const widths = divideWidth(
    shown.map((state) => counts[state]),
    widthPx,
  );
  let x = 0;
  return shown.map((state, index) => {
    const width = widths[index] ?? 0;
    const segment = { state, count: counts[state], x, width };
    x += width;
    return segment;
  });
}

/** All counts that are not zero, in words: "12 in use, 3 idle, 239 free". */
export function barLabel(counts: StateCounts): string {
  const parts = ADDRESS_STATES.filter((state) => counts[state] > 0n).map(
    (state) => `${countText(counts[state])} ${STATE_SWATCHES[state].label}`,
  );
  return parts.length === 0 ? "no addresses" : parts.join(", ");
}

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const LARGE = 1_000_000_000n;

/** `1,024`; `about 1.8 × 10¹⁹` where nobody would read the digits. */
export function countText(count: bigint): string {
  if (count < LARGE) return count.toLocaleString("en");
  const digits = String(count);
  const exponent = [...String(digits.length - 1)].map((digit) => SUPERSCRIPT[Number(digit)]).join("");
  return `about ${digits[0]}.${digits[1]} × 10${exponent}`;
}

/** In proportion to the counts, but for those that would be too narrow: they get the minimum first. */
function divideWidth(counts: readonly bigint[], widthPx: number): number[] {
  const minPx = Math.min(SEGMENT_MIN_PX, Math.floor(widthPx / counts.length));
  const widths = counts.map(() => minPx);
  let wide = counts.map((count, index) => ({ count, index }));
  let restPx = widthPx;
  let total = 0n;
  // What is left never gets too narrow for all: each that leaves takes no more than its minimum.
  for (let before = -1; before !== wide.length; ) {
    before = wide.length;
    total = wide.reduce((sum, { count }) => sum + count, 0n);
    wide = wide.filter(({ count }) => count * BigInt(restPx) >= BigInt(minPx) * total);
    restPx -= minPx * (before - wide.length);
  }
  const shares = wide.map(({ count, index }) => {
    const share = count * BigInt(restPx);
    widths[index] = Number(share / total);
    return { index, remainder: share % total };
  });
  // The pixels that rounding down left go to the largest remainders.
  let left = widthPx - widths.reduce((sum, width) => sum + width, 0);
  shares.sort((a, b) => (a.remainder > b.remainder ? -1 : a.remainder < b.remainder ? 1 : 0));
  for (const { index } of shares) {
    if (left <= 0) break;
    widths[index] = (widths[index] ?? 0) + 1;
    left -= 1;
  }
  return widths;
}
