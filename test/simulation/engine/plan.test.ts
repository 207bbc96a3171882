import { expect, test } from "vitest";
import { GeneratedPlan, PEACE } from "./plan.ts";

const run = () => {};
/** One that comes nearly always, some that nearly never do, and one that is left out. */
const KINDS = {
  usual: { weight: 1_000, run },
  ...Object.fromEntries(["a", "b", "c", "d"].map((name) => [`rare-${name}`, { weight: 0.001, run }])),
  never: { weight: 0, run },
  "in-turn": { weight: 0, isInTurn: true as const, run },
};

function timesOf(count: number): Map<string, number> {
  const plan = new GeneratedPlan(1, KINDS);
  const times = new Map<string, number>();
  for (let i = 0; i < count; i += 1) {
    const { kind } = plan.next();
    times.set(kind, (times.get(kind) ?? 0) + 1);
  }
  return times;
}

test("a long history has every kind of action that has a weight, and none that has no weight", () => {
  const times = timesOf(1_000);
  for (const name of ["rare-a", "rare-b", "rare-c", "rare-d", "in-turn"])
    expect(times.get(name), name).toBeGreaterThan(10);
  expect(times.get("never")).toBeUndefined();
  expect(times.get("usual")).toBeGreaterThan(700);
});

test("a short history has kinds of actions by their weights alone", () => {
  expect([...timesOf(249)]).toEqual([["usual", 249]]);
});

test("rests come at a fixed number of actions, however small their weight", () => {
  expect(timesOf(2_000).get(PEACE)).toBe(8);
});
