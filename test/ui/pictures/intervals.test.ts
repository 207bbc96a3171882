import fc from "fast-check";
import { expect, test } from "vitest";
import { GAP_SHOWN_MIN, intervalRows } from "../../../ui/pictures/intervals.ts";

function rows(size: bigint, held: readonly bigint[]): string[] {
  return intervalRows({ first: 0n, last: size - 1n }, held).map(
    ({ kind, first, last, held: count }) => `${kind} ${first}-${last}${kind === "held" ? ` (${count})` : ""}`,
  );
}

test("an empty subnet is one free interval", () => {
  expect(intervalRows({ first: 16n, last: 31n }, [])).toEqual([
    { kind: "free", first: 16n, last: 31n, size: 16n, held: 0 },
  ]);
});

test("the space before, between and after what is held is free", () => {
  expect(rows(1n << 64n, [1n, 100n, 101n])).toEqual([
    "free 0-0",
    "held 1-1 (1)",
    "free 2-99",
    "held 100-101 (2)",
    "free 102-18446744073709551615",
  ]);
});

test("a gap of fewer than 16 addresses is no row of its own", () => {
  expect(rows(100n, [0n, 16n, 99n])).toEqual(["held 0-16 (2)", "free 17-98", "held 99-99 (1)"]);
  expect(rows(100n, [0n, 17n, 99n])).toEqual([
    "held 0-0 (1)",
    "free 1-16",
    "held 17-17 (1)",
    "free 18-98",
    "held 99-99 (1)",
  ]);
});

test("values outside the subnet, and repeated ones, are ignored", () => {
  expect(intervalRows({ first: 16n, last: 31n }, [3n, 16n, 16n, 40n])).toEqual([
    { kind: "held", first: 16n, last: 16n, size: 1n, held: 1 },
    { kind: "free", first: 17n, last: 31n, size: 15n, held: 0 },
  ]);
});

test("the rows cover the subnet exactly, and each held address is in a held one", () => {
  const SIZE = 1n << 64n;
  const FIRST = 0xfd00n << 112n;
  const offset = fc.oneof(fc.bigInt({ min: 0n, max: 200n }), fc.bigInt({ min: 0n, max: SIZE - 1n }));
  fc.assert(
    fc.property(fc.uniqueArray(offset), (offsets) => {
      const held = offsets.map((one) => FIRST + one).sort((a, b) => (a < b ? -1 : 1));
      const intervals = intervalRows({ first: FIRST, last: FIRST + SIZE - 1n }, held);
      let next = FIRST;
      intervals.forEach(({ kind, first, last, size, held: count }, index) => {
        expect(first).toBe(next);
        expect(size).toBe(last - first + 1n);
        next = last + 1n;
        const inside = held.filter((value) => value >= first && value <= last);
        expect(inside).toHaveLength(count);
        if (kind === "free") {
          expect(count).toBe(0);
          const isBetween = index > 0 && index < intervals.length - 1;
          if (isBetween) expect(size).toBeGreaterThanOrEqual(GAP_SHOWN_MIN);
        } else expect([inside[0], inside.at(-1)]).toEqual([first, last]);
        expect(kind).not.toBe(intervals[index + 1]?.kind);
      });
      expect(next).toBe(FIRST + SIZE);
    }),
  );
});
