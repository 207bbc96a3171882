import fc from "fast-check";
import { expect, test } from "vitest";
import { barLabel, barSegments, type StateCounts } from "../../../ui/pictures/bar.ts";
import { ADDRESS_STATES } from "../../../ui/pictures/states.ts";

const NONE: StateCounts = {
  "in-use": 0n,
  idle: 0n,
  cooling: 0n,
  reserved: 0n,
  gateway: 0n,
  excluded: 0n,
  free: 0n,
};
const count = fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 300n }), fc.bigInt({ min: 0n, max: 1n << 64n }));
const counts = fc.record(
  Object.fromEntries(ADDRESS_STATES.map((state) => [state, count])),
) as fc.Arbitrary<StateCounts>;

function widths(given: Partial<StateCounts>, widthPx: number): string {
  return barSegments({ ...NONE, ...given }, widthPx)
    .map(({ state, x, width }) => `${state} ${x}+${width}`)
    .join(", ");
}

test("segments are in proportion to their counts, and in one order", () => {
  expect(widths({ free: 50n, "in-use": 25n, reserved: 25n }, 200)).toBe("in-use 0+50, reserved 50+50, free 100+100");
});

test("a single address of a /64 can be seen", () => {
  expect(widths({ "in-use": 1n, gateway: 1n, free: (1n << 64n) - 2n }, 100)).toBe("in-use 0+2, gateway 2+2, free 4+96");
});

test("without any address all of the bar is free", () => {
  expect(widths({}, 100)).toBe("free 0+100");
});

test("where there is no room for two pixels each, there is one, or none", () => {
  expect(widths({ "in-use": 1n, idle: 1n, free: 98n }, 5)).toBe("in-use 0+1, idle 1+1, free 2+3");
  expect(widths({ "in-use": 1n, idle: 1n, free: 98n }, 2)).toBe("in-use 0+0, idle 0+0, free 0+2");
});

test("widths add up to the bar's, and whatever has an address is at least two pixels wide", () => {
  fc.assert(
    fc.property(counts, fc.integer({ min: 0, max: 2_000 }), (given, widthPx) => {
      const segments = barSegments(given, widthPx);
      let x = 0;
      for (const segment of segments) {
        expect(segment.x).toBe(x);
        if (widthPx >= 2 * segments.length) expect(segment.width).toBeGreaterThanOrEqual(2);
        expect(segment.width).toBeGreaterThanOrEqual(0);
        x += segment.width;
      }
      expect(x).toBe(widthPx);
    }),
  );
});

test("a larger count is never narrower by more than the pixel that rounding takes", () => {
  fc.assert(
    fc.property(counts, fc.integer({ min: 14, max: 2_000 }), (given, widthPx) => {
      const sorted = barSegments(given, widthPx).sort((a, b) => (a.count < b.count ? -1 : 1));
      sorted.slice(1).forEach(({ width }, index) => {
        expect(width).toBeGreaterThanOrEqual((sorted[index]?.width ?? 0) - 1);
      });
    }),
  );
});

test("the label has every count that is not zero in words", () => {
  expect(barLabel({ ...NONE, "in-use": 12n, cooling: 3n, free: 1n << 64n })).toBe(
    "12 in use, 3 cooling down, about 1.8 × 10¹⁹ free",
  );
  expect(barLabel(NONE)).toBe("no addresses");
});
