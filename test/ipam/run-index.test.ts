import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { RunIndex } from "../../ipam/space/run-index.ts";

/** First of the sorted free numbers from `value` on, wrapping around: what `nextFrom` means. */
function nextFromModel(free: ReadonlySet<bigint>, value: bigint): bigint | null {
  const sorted = [...free].sort((a, b) => (a < b ? -1 : 1));
  return sorted.find((n) => n >= value) ?? sorted[0] ?? null;
}

test("the index behaves like a plain Set, over any sequence of operations", () => {
  const step = fc.record({
    act: fc.constantFrom("take", "take", "give", "next"),
    value: fc.bigInt(0n, 30n),
  });
  const free = fc.uniqueArray(fc.bigInt(0n, 30n));
  fc.assert(
    fc.property(free, fc.array(step, { maxLength: 120, size: "max" }), (start, steps) => {
      const model = new Set(start);
      const index = new RunIndex(IntervalSet.from(start.map((value) => ({ first: value, last: value }))));
      for (const { act, value } of steps) {
        if (act === "take") expect(index.take(value)).toBe(model.delete(value));
        else if (act === "give") {
          expect(index.give(value)).toBe(!model.has(value));
          model.add(value);
        } else expect(index.nextFrom(value)).toBe(nextFromModel(model, value));
        expect(index.count).toBe(BigInt(model.size));
      }
      for (let value = -1n; value <= 31n; value++) expect(index.has(value)).toBe(model.has(value));
    }),
    { numRuns: 200 },
  );
});

/** Enough holes for many chunks, in an order that splits and joins them everywhere. */
function everySecond(count: number, stride: number): bigint[] {
  return Array.from({ length: count }, (_, i) => BigInt(((i * stride) % count) * 2 + 1));
}

describe("many chunks", () => {
  test.each([
    [3_000, 1, "ascending"],
    [3_000, 2_999, "descending"],
    [3_000, 1_009, "scattered"],
  ])("of %i holes with stride %i (%s) are taken, found and released", (count, stride) => {
    const all = IntervalSet.of(0n, BigInt(2 * count));
    const index = new RunIndex(all);
    expect(everySecond(count, stride).every((hole) => index.take(hole))).toBe(true);
    expect(index.count).toBe(BigInt(count + 1));
    expect(index.shape.runs).toBe(count + 1);
    expect(index.shape.chunks).toBeGreaterThan(5);
    expect(index.shape.chunks).toBeLessThan(3 * Math.ceil(count / 256));
    for (let i = 0n; i < BigInt(count); i += 37n) {
      expect(index.has(2n * i + 1n)).toBe(false);
      expect(index.nextFrom(2n * i + 1n)).toBe(2n * i + 2n);
      expect(index.take(2n * i + 1n)).toBe(false);
    }
    expect(everySecond(count, 7).every((hole) => index.give(hole))).toBe(true);
    expect([...index.intervals()]).toEqual([...all.intervals()]);
    expect(index.shape).toEqual({ runs: 1, chunks: 1 });
  });

  test("are few after runs have vanished", () => {
    const index = new RunIndex(IntervalSet.of(0n, 20_000n));
    for (const hole of everySecond(10_000, 3)) index.take(hole);
    for (let n = 0n; n <= 20_000n; n += 2n) if (n % 1_000n !== 0n) index.take(n);
    expect(index.shape).toEqual({ runs: 21, chunks: 1 });
    expect(index.nextFrom(1n)).toBe(1_000n);
    for (let n = 0n; n <= 20_000n; n += 1_000n) index.take(n);
    expect(index.shape).toEqual({ runs: 0, chunks: 0 });
    expect(index.nextFrom(0n)).toBeNull();
    expect(index.give(7n)).toBe(true);
    expect(index.nextFrom(8n)).toBe(7n);
  });

  test("are few after runs have vanished from the end", () => {
    const index = new RunIndex(IntervalSet.of(0n, 20_000n));
    for (const hole of everySecond(10_000, 3)) index.take(hole);
    for (let n = 20_000n; n >= 0n; n -= 2n) if (n % 1_000n !== 0n) index.take(n);
    expect(index.shape).toEqual({ runs: 21, chunks: 1 });
  });

  test("split and join, and match a plain Set", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff_ffff }), (seed) => {
        const random = numbers(seed);
        const model = new Set<bigint>();
        const index = new RunIndex(IntervalSet.EMPTY);
        // Every second number, so that each is a run of its own, until there are several chunks; then all away.
        let wrong = 0;
        for (let i = 0; i < 6_000; i++) {
          const value = BigInt(random(3_000)) * 2n;
          const grow = i < 3_500 ? random(10) < 8 : random(10) < 2;
          const expected = grow ? !model.has(value) : model.has(value);
          if ((grow ? index.give(value) : index.take(value)) !== expected) wrong++;
          if (grow) model.add(value);
          else model.delete(value);
        }
        expect(wrong).toBe(0);
        const sorted = [...model].sort((a, b) => (a < b ? -1 : 1));
        expect([...index.intervals()].map(({ first }) => first)).toEqual(sorted);
        expect(index.count).toBe(BigInt(sorted.length));
      }),
      { numRuns: 10 },
    );
  });
});

/** A small linear congruential generator: repeatable, and good enough to scatter. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
