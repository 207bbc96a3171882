import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PATIENCE_MS, type Simulated, Simulation } from "../simulate.ts";
import { readFound } from "./found.ts";

/** The same for everybody; between them, everything that is owed in a long run but a little is done. */
const SEEDS = [1, 2, 6, 13, 21];
const STEPS = 25_000;

const FOUND = join(import.meta.dirname, "../found");
const found = (existsSync(FOUND) ? readdirSync(FOUND) : []).filter((name) => name.endsWith(".json")).sort();
const readKept = (name: string) => readFound(readFileSync(join(FOUND, name), "utf8"));
const ofMutants = found.filter((name) => readKept(name).mutant !== null);

let simulation: Simulation;
beforeAll(() => {
  simulation = new Simulation();
}, PATIENCE_MS);
afterAll(() => simulation.remove());
const patience = { timeout: PATIENCE_MS };

/** With its last lines, when something is wrong. */
const verdict = ({ code, stdout }: Simulated) => (code === 0 ? "clean" : stdout.slice(-6_000));

test.each(SEEDS)("the history of seed %d has no violation", patience, async (seed) => {
  expect(verdict(await simulation.run({ seed, steps: STEPS }))).toBe("clean");
});

describe.runIf(found.length > 0)("histories that once had a violation", () => {
  test.each(found)("%s has none any more", patience, async (name) => {
    expect(verdict(await simulation.run({ found: join(FOUND, name) }))).toBe("clean");
  });

  test.each(found)("%s says why it is kept", (name) => {
    const { why, violation } = readKept(name);
    expect(why.length).toBeGreaterThan(20);
    expect(violation).not.toBe("");
  });
});

describe.runIf(ofMutants.length > 0)("histories of a product with a planted fault", () => {
  test.each(ofMutants)("%s fails with the fault", patience, async (name) => {
    const { mutant, violation } = readKept(name);
    const spoiled = new Simulation(mutant ?? undefined);
    try {
      const { result } = await spoiled.run({ found: join(FOUND, name) });
      expect(result?.violation?.kind).toBe(violation);
    } finally {
      spoiled.remove();
    }
  });
});
