import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Interval, IntervalSet } from "../../ipam/space/interval-set.ts";

const HIGHEST = 40;
const anyIntervals = fc.array(
  fc.tuple(fc.integer({ min: 0, max: HIGHEST }), fc.integer({ min: 0, max: 8 })).map(
    ([first, length]): Interval => ({
      first: BigInt(first),
      last: BigInt(Math.min(first + length, HIGHEST)),
    }),
  ),
  { maxLength: 12, size: "max" },
);

/** The model: a plain set of numbers. */
function numbersOf(intervals: Iterable<Interval>): Set<number> {
  const numbers = new Set<number>();
  for (const { first, last } of intervals) for (let n = Number(first); n <= Number(last); n++) numbers.add(n);
  return numbers;
}

function expectSame(set: IntervalSet, model: ReadonlySet<number>): void {
  const sorted = [...model].sort((a, b) => a - b);
  expect([...numbersOf(set.intervals())]).toEqual(sorted);
  expect(set.size).toBe(BigInt(sorted.length));
  expect(set.first).toBe(sorted.length === 0 ? null : BigInt(sorted[0] as number));
  expect(set.last).toBe(sorted.length === 0 ? null : BigInt(sorted.at(-1) as number));
  for (let n = -1; n <= HIGHEST + 1; n++) expect(set.contains(BigInt(n))).toBe(model.has(n));
  for (const [rank, n] of sorted.entries()) expect(set.at(BigInt(rank))).toBe(BigInt(n));
  const runs = [...set.intervals()];
  expect(set.intervalCount).toBe(runs.length);
  for (const [i, run] of runs.entries()) {
    const next = runs[i + 1];
    if (next) expect(next.first).toBeGreaterThan(run.last + 1n);
  }
}

test("a set is made from runs in any order, overlapping, touching and repeated", () => {
  fc.assert(fc.property(anyIntervals, (intervals) => expectSame(IntervalSet.from(intervals), numbersOf(intervals))));
});

test("union, intersect, subtract, covers and holdsAny agree with plain sets", () => {
  fc.assert(
    fc.property(anyIntervals, anyIntervals, (inA, inB) => {
      const [a, b] = [IntervalSet.from(inA), IntervalSet.from(inB)];
      const [modelA, modelB] = [numbersOf(inA), numbersOf(inB)];
      expectSame(a.union(b), new Set([...modelA, ...modelB]));
      expectSame(a.intersect(b), new Set([...modelA].filter((n) => modelB.has(n))));
      expectSame(a.subtract(b), new Set([...modelA].filter((n) => !modelB.has(n))));
      for (const { first, last } of inB) {
        expect(a.covers(first, last)).toBe([...numbersOf([{ first, last }])].every((n) => modelA.has(n)));
        expect(a.holdsAny(first, last)).toBe([...numbersOf([{ first, last }])].some((n) => modelA.has(n)));
      }
      expectSame(a, modelA);
    }),
    { numRuns: 200 },
  );
});

describe("refuses", () => {
  test("a run that ends before it starts", () => {
    expect(() => IntervalSet.of(5n, 4n)).toThrow(RangeError);
  });

  test("ranks beyond its size", () => {
    expect(() => IntervalSet.of(5n, 6n).at(2n)).toThrow(RangeError);
    expect(() => IntervalSet.of(5n, 6n).at(-1n)).toThrow(RangeError);
    expect(() => IntervalSet.EMPTY.at(0n)).toThrow(RangeError);
  });
});

test("an IPv6 /64 without ten thousand unsorted runs has ten thousand and one runs", () => {
  const base = 0xfd00n << 112n;
  const order = Array.from({ length: 10_000 }, (_, i) => BigInt((i * 7919) % 10_000));
  const holes = order.flatMap((i) => [
    { first: base + i * 1_000_000n + 1n, last: base + i * 1_000_000n + 9n },
    { first: base + i * 1_000_000n + 5n, last: base + i * 1_000_000n + 14n },
  ]);
  const whole = IntervalSet.of(base, base + (1n << 64n) - 1n);
  const rest = whole.subtract(IntervalSet.from(holes));
  expect(rest.intervalCount).toBe(10_001);
  expect(rest.size).toBe((1n << 64n) - 140_000n);
  expect(rest.at(0n)).toBe(base);
  expect(rest.at(1n)).toBe(base + 15n);
  expect(rest.at(rest.size - 1n)).toBe(base + (1n << 64n) - 1n);
});
