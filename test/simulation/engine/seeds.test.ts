import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Simulated, Simulation } from "../simulate.ts";
import { readFound } from "./found.ts";

const FOUND = join(import.meta.dirname, "../found");
const found = readdirSync(FOUND)
  .filter((name) => name.endsWith(".json"))
  .sort();

let simulation: Simulation;
beforeAll(() => {
  simulation = new Simulation();
});
afterAll(() => simulation.remove());

/** With its last lines, when something is wrong. */
const verdict = ({ code, stdout }: Simulated) => (code === 0 ? "clean" : stdout.slice(-6_000));

test.each([1, 2, 3])("nothing is wrong in the history of seed %d", async (seed) => {
  expect(verdict(await simulation.run({ seed, steps: 25_000 }))).toBe("clean");
});

test("nothing is wrong in fresh histories", async () => {
  const simulated = await simulation.run({ fresh: 60, steps: 25_000 });
  console.log(simulated.stderr.trim().replaceAll("\n", ", "));
  expect(simulated.stderr).toMatch(/^seed \d+\n/);
  expect(verdict(simulated)).toBe("clean");
});

describe.runIf(found.length > 0)("what was found once", () => {
  test.each(found)("%s is mended", async (name) => {
    expect(verdict(await simulation.run({ found: join(FOUND, name) }))).toBe("clean");
  });

  test.each(found)("%s says why it is kept", (name) => {
    const { why, violation } = readFound(readFileSync(join(FOUND, name), "utf8"));
    expect(why.length).toBeGreaterThan(20);
    expect(violation).not.toBe("");
  });
});

test("a run in which something was not exercised is red, and says what", async () => {
  const flags = { seed: 1, steps: 600 };
  const { code, stdout, result } = await simulation.run({ ...flags, "owed-after": 500 });
  expect(code).toBe(1);
  expect(result?.violation).toBeNull();
  expect(result?.missing).toContain("vm.migrated");
  expect(stdout).toMatch(/vm\.migrated +MISSING/);
  expect((await simulation.run(flags)).code).toBe(0);
});

test("what is wrong is told as a story, made shorter, kept, and told again", async () => {
  const spoiled = new Simulation("answered-before-published");
  try {
    const keep = spoiled.file("kept.json");
    const failed = await spoiled.run({ seed: 1, steps: 8_000, nodes: 2, shrink: 20, keep });
    expect(failed.code).toBe(1);
    expect(failed.result?.violation?.kind).toBe("answered-unpublished");
    expect(failed.stdout).toMatch(/ kubelet node-\d: ADD \S+ \S+ on \S+: \d/);

    const kept = readFound(readFileSync(keep, "utf8"));
    expect(kept).toMatchObject({ violation: "answered-unpublished", mutant: "answered-before-published" });
    expect(kept.actions?.length).toBeLessThan(4);
    const again = await spoiled.run({ found: keep });
    expect(again.result?.violation?.kind).toBe("answered-unpublished");
    expect(verdict(await simulation.run({ found: keep }))).toBe("clean");
  } finally {
    spoiled.remove();
  }
});
