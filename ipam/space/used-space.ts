import type { Address, Family } from "./address.ts";
import { type Interval, IntervalSet } from "./interval-set.ts";

/** The taken addresses of a network at one instant. */
export interface UsedSpace {
  /** Allocated and retained addresses, inside the network's ranges or not. */
  readonly used: Readonly<Record<Family, IntervalSet>>;
  /** The retained ones among them. */
  readonly retained: Readonly<Record<Family, IntervalSet>>;
  /** Addresses that cool down, longest released first. */
  readonly cooling: readonly Address[];
}

export const FAMILIES: readonly Family[] = [4, 6];

/*
 * A set of addresses as text: the shorter one of
 *
 *   runs:<base64>           for each run the gap before it and its length less one, in 7 bits a byte, lowest first
 *   bits:<hex>:<base64>     the first address, then a bit for each address from there on, lowest first
 *
 * and a list of addresses, whose order counts, as the differences between them, of which odd numbers are negative.
 */

const RUNS = "runs:";
const BITS = "bits:";
/** A longer bit map than this, in addresses, is not tried: it would not fit an object. */
const BITS_MAX = 1n << 19n;

export function encodeSet(set: IntervalSet): string {
  const runs = encodeRuns(set);
  const bits = encodeBits(set);
  return bits === null || runs.length <= bits.length ? runs : bits;
}

/** Throws RangeError for a text that encodeSet does not write. */
export function decodeSet(text: string): IntervalSet {
  if (text.startsWith(RUNS)) return decodeRuns(text.slice(RUNS.length));
  if (text.startsWith(BITS)) return decodeBits(text.slice(BITS.length));
  throw new RangeError(`a set of addresses begins with ${RUNS} or ${BITS}, not with ${text.slice(0, 10)}`);
}

export function encodeList(values: readonly bigint[]): string {
  const bytes: number[] = [];
  let before = 0n;
  for (const value of values) {
    const step = value - before;
    pushNumber(bytes, step < 0n ? -2n * step - 1n : 2n * step);
    before = value;
  }
  return Buffer.from(bytes).toString("base64");
}

/** Throws RangeError for a text that encodeList does not write. */
export function decodeList(text: string): bigint[] {
  const values: bigint[] = [];
  let before = 0n;
  for (const number of numbersOf(text)) {
    before += number % 2n === 0n ? number / 2n : -(number + 1n) / 2n;
    if (before < 0n) throw new RangeError("a list of addresses goes below the first address");
    values.push(before);
  }
  return values;
}

function encodeRuns(set: IntervalSet): string {
  const bytes: number[] = [];
  let position = 0n;
  for (const { first, last } of set.intervals()) {
    pushNumber(bytes, first - position);
    pushNumber(bytes, last - first);
    position = last + 1n;
  }
  return RUNS + Buffer.from(bytes).toString("base64");
}

function decodeRuns(text: string): IntervalSet {
  const runs: Interval[] = [];
  let position = 0n;
  let first: bigint | null = null;
  for (const number of numbersOf(text)) {
    position += number;
    if (first === null) first = position;
    else {
      runs.push({ first, last: position });
      first = null;
      position += 1n;
    }
  }
  if (first !== null) throw new RangeError("the last run of a set of addresses has no length");
  return IntervalSet.from(runs);
}

function encodeBits(set: IntervalSet): string | null {
  const [start, end] = [set.first, set.last];
  if (start === null || end === null || end - start >= BITS_MAX) return null;
  const bits = new Uint8Array(Number((end - start) / 8n) + 1);
  for (const { first, last } of set.intervals()) {
    for (let at = Number(first - start); at <= Number(last - start); at += 1)
      bits[at >> 3] = (bits[at >> 3] as number) | (1 << (at & 7));
  }
  return `${BITS}${start.toString(16)}:${Buffer.from(bits).toString("base64")}`;
}

function decodeBits(text: string): IntervalSet {
  const [, start, base64] = /^([0-9a-f]+):([A-Za-z0-9+/=]*)$/.exec(text) ?? [];
  if (start === undefined || base64 === undefined) throw new RangeError("a bit map without its first address");
  const from = BigInt(`0x${start}`);
  const bits = Buffer.from(base64, "base64");
  const runs: Interval[] = [];
  let first: number | null = null;
  for (let at = 0; at <= bits.length * 8; at += 1) {
    const isSet = at < bits.length * 8 && ((bits[at >> 3] as number) & (1 << (at & 7))) !== 0;
    if (isSet) first ??= at;
    else if (first !== null) {
      runs.push({ first: from + BigInt(first), last: from + BigInt(at - 1) });
      first = null;
    }
  }
  return IntervalSet.from(runs);
}

function pushNumber(bytes: number[], number: bigint): void {
  let left = number;
  while (left > 0x7fn) {
    bytes.push(Number(left & 0x7fn) | 0x80);
    left >>= 7n;
  }
  bytes.push(Number(left));
}

function* numbersOf(base64: string): Generator<bigint> {
  let number = 0n;
  let shift = 0n;
  for (const byte of Buffer.from(base64, "base64")) {
    number |= BigInt(byte & 0x7f) << shift;
    shift += 7n;
    if (byte >= 0x80) continue;
    yield number;
    number = 0n;
    shift = 0n;
  }
  if (shift > 0n) throw new RangeError("a number of a set of addresses is cut off");
}
