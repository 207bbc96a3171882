import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, Simulation } from "../simulate.ts";
import { MUTANTS } from "./all.ts";
import found from "./found.json" with { type: "json" };
import { editsOf } from "./mutant.ts";

const ROOT = join(import.meta.dirname, "../../..");
const patience = { timeout: PATIENCE_MS };

interface FoundBy {
  /** The first of those that are tried. */
  readonly seed: number;
  /** Before the last time of peace. */
  readonly steps: number;
  /** With it, until something was wrong. */
  readonly took: number;
  /** What the oracle called it: what comes first depends on the seed. */
  readonly kind: string;
  /** What happens more often than usually in it. */
  readonly more?: string;
  readonly nodes?: number;
}
const FOUND: Readonly<Record<string, FoundBy>> = found;
/** The world changes, and with it what a seed means: one of so many in a row finds the fault. */
const SEEDS = 4;
const NODES = 5;

let sound: Simulation;
beforeAll(() => {
  sound = new Simulation();
}, PATIENCE_MS);
afterAll(() => sound.remove());

test.each(Object.entries(MUTANTS))("each text of %s is in the product exactly once", (_, mutant) => {
  for (const { file, find, replace } of editsOf(mutant)) {
    const text = readFileSync(join(ROOT, file), "utf8");
    expect(text.split(find).length - 1, file).toBe(1);
    expect(replace).not.toBe(find);
  }
});

test("every fault is found by the simulation, or says what else finds it", () => {
  const untold = Object.entries(MUTANTS).filter(
    ([name, { elsewhere }]) => (FOUND[name] === undefined) === (elsewhere === undefined),
  );
  expect(untold.map(([name]) => name)).toEqual([]);
  expect(Object.keys(FOUND).filter((name) => MUTANTS[name] === undefined)).toEqual([]);
});

test.each(Object.entries(FOUND))(
  "%s is found, and nothing is wrong with the sound product in the same history",
  patience,
  async (name, first) => {
    const spoiled = new Simulation(name);
    const seen: string[] = [];
    try {
      for (let seed = first.seed; seed < first.seed + SEEDS; seed += 1) {
        const [kind, otherwise] = await Promise.all(
          [spoiled, sound].map((one) => kindIn(one, { ...first, seed })),
        );
        seen.push(`seed ${seed}: ${kind ?? "nothing"}, and ${otherwise ?? "nothing"} without it`);
        if (kind != null && otherwise === null) return;
      }
      expect.fail(`expected ${first.kind} of ${name}: ${seen.join("; ")}`);
    } finally {
      spoiled.remove();
    }
  },
);

/** What is wrong in a history; null: nothing. */
async function kindIn(simulation: Simulation, one: FoundBy): Promise<string | null> {
  const { seed, steps, more = "", nodes = NODES } = one;
  const { result, stderr } = await simulation.run({ seed, steps, more, nodes });
  if (result === null) throw new Error(`the run did not come to an end: ${stderr.slice(-2_000)}`);
  return result.violation?.kind ?? null;
}
