import fc from "fast-check";
import { expect, test } from "vitest";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { decodeList, decodeSet, encodeList, encodeSet } from "../../ipam/space/used-space.ts";

const single = (value: bigint) => ({ first: value, last: value });
const runsOf = (set: IntervalSet) => [...set.intervals()];
const anyRun = fc
  .tuple(fc.bigInt(0n, (1n << 128n) - 1n), fc.bigInt(0n, 1n << 12n))
  .map(([first, length]) => ({ first, last: first + length }));
const anyRunNearby = fc
  .tuple(fc.bigInt(0n, 2_000n), fc.bigInt(0n, 40n))
  .map(([first, length]) => ({ first: 0x0a000000n + first, last: 0x0a000000n + first + length }));

test("any set of addresses reads as it was written", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(anyRun, anyRunNearby)), (runs) => {
      const set = IntervalSet.from(runs);
      expect(runsOf(decodeSet(encodeSet(set)))).toEqual(runsOf(set));
    }),
  );
  for (const set of [IntervalSet.EMPTY, IntervalSet.of(0n, 0n), IntervalSet.of(0n, (1n << 128n) - 1n)])
    expect(runsOf(decodeSet(encodeSet(set)))).toEqual(runsOf(set));
});

test("any list of addresses reads as it was written, in its order", () => {
  const anyAddress = fc.bigInt(0n, (1n << 128n) - 1n);
  fc.assert(fc.property(fc.array(anyAddress), (all) => void expect(decodeList(encodeList(all))).toEqual(all)));
});

test("65,536 addresses fit 16 kB however they are taken, and an evenly filled network some bytes", () => {
  const everySecond = Array.from({ length: 32_768 }, (_, at) => single(0x0a000000n + 2n * BigInt(at)));
  const every97th = Array.from({ length: 676 }, (_, at) => single(0x0a000000n + 97n * BigInt(at)));
  expect(encodeSet(IntervalSet.from(everySecond))).toMatch(/^bits:/);
  expect(encodeSet(IntervalSet.from(everySecond)).length).toBeLessThan(16_000);
  expect(encodeSet(IntervalSet.from(every97th))).toMatch(/^runs:/);
  expect(encodeSet(IntervalSet.from(every97th)).length).toBeLessThan(2_000);
  expect(encodeSet(IntervalSet.of(0x0a000000n, 0x0a00fffen)).length).toBeLessThan(20);
});

test("what nobody writes is an error", () => {
  for (const text of ["", "10.0.0.1", "bits:", "bits:xyz:AA==", "bits:0a", "runs:gA==", "runs:AQ=="])
    expect(() => decodeSet(text), text).toThrow(RangeError);
  for (const text of ["gA==", "Aw=="]) expect(() => decodeList(text), text).toThrow(RangeError);
});
