import fc from "fast-check";
import { expect, test } from "vitest";
import { isIn, runsIn, without } from "../../../ui/pages/free-runs.ts";

const values = fc.uniqueArray(fc.integer({ min: 0, max: 300 }), { maxLength: 60 });
const sorted = (all: readonly number[]) => [...all].sort((a, b) => a - b).map(BigInt);

/** The runs that a set of values makes. */
function runsOf(all: readonly bigint[]) {
  const runs: { family: 4; first: bigint; last: bigint }[] = [];
  for (const value of all) {
    const last = runs.at(-1);
    if (last !== undefined && last.last + 1n === value) last.last = value;
    else runs.push({ family: 4, first: value, last: value });
  }
  return runs;
}

test("what is left of free runs is what nobody has taken, in as few runs as there are", () => {
  fc.assert(
    fc.property(values, values, (free, taken) => {
      const left = sorted(free.filter((value) => !taken.includes(value)));
      expect(without(runsOf(sorted(free)), sorted(taken))).toEqual(runsOf(left));
    }),
  );
});

test("an address is in the runs that have it, and in no other", () => {
  fc.assert(
    fc.property(values, fc.integer({ min: 0, max: 300 }), (free, value) => {
      expect(isIn(runsOf(sorted(free)), { family: 4, value: BigInt(value) })).toBe(free.includes(value));
    }),
  );
});

test("the ranges of an answer may come in any order, and of both families", () => {
  const run = (first: string, last: string) => ({ runs: [{ first, last }] });
  const runs = runsIn([run("fd10::1", "fd10::9"), run("10.4.0.2", "10.4.1.1"), run("10.1.0.5", "10.1.0.9")]);
  expect(runs.map(({ family }) => family)).toEqual([4, 4, 6]);
  expect(isIn(runs, { family: 4, value: 0x0a040003n })).toBe(true);
  expect(isIn(runs, { family: 4, value: 0x0a010005n })).toBe(true);
  expect(isIn(runs, { family: 4, value: 0x0a010004n })).toBe(false);
  // The same number in the other family.
  expect(isIn(runs, { family: 6, value: 0x0a040003n })).toBe(false);
});
