import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PATIENCE_MS, Simulation } from "../simulate.ts";
import { MUTANTS } from "./all.ts";
import found from "./found.json" with { type: "json" };

const ROOT = join(import.meta.dirname, "../../..");
const patience = { timeout: PATIENCE_MS };

interface FoundBy {
  /** The first of those that are tried. */
  readonly seed: number;
  readonly steps: number;
  /** What the oracle calls it: what comes first depends on the seed. */
  readonly kind: string;
  /** What happens more often than usually in it. */
  readonly more?: string;
}
const FOUND: Readonly<Record<string, FoundBy>> = found;
/** The world changes, and with it what a seed means: one of so many in a row finds the fault. */
const SEEDS = 4;
/** Beside what it took once. */
const STEPS_MORE = 4_000;

test.each(Object.entries(MUTANTS))(
  "the text of %s is in the product exactly once",
  (_, { file, find, replace }) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    expect(text.split(find).length - 1, file).toBe(1);
    expect(replace).not.toBe(find);
  },
);

test("every fault is found by the simulation, or says what else finds it", () => {
  const untold = Object.entries(MUTANTS).filter(
    ([name, { elsewhere }]) => !FOUND[name] && elsewhere === undefined,
  );
  expect(untold.map(([name]) => name)).toEqual([]);
  expect(Object.keys(FOUND).filter((name) => MUTANTS[name] === undefined)).toEqual([]);
});

test.each(Object.entries(FOUND))(
  "%s is found, and the sound product is not blamed for it",
  patience,
  async (name, first) => {
    const [spoiled, sound] = [new Simulation(name), new Simulation()];
    const seen: string[] = [];
    try {
      for (let seed = first.seed; seed < first.seed + SEEDS; seed += 1) {
        const one = { ...first, seed, steps: first.steps + STEPS_MORE };
        const kind = (await violationIn(spoiled, one))?.kind;
        seen.push(`seed ${seed}: ${kind ?? "nothing"}`);
        if (kind === undefined || !first.kind.split(" ").includes(kind)) continue;
        if ((await violationIn(sound, one))?.kind !== kind) return;
      }
      expect.fail(`expected ${first.kind} of ${name}: ${seen.join("; ")}`);
    } finally {
      spoiled.remove();
      sound.remove();
    }
  },
);

/** What is wrong in a history; undefined: nothing. */
async function violationIn(simulation: Simulation, { seed, steps, more = "" }: FoundBy) {
  const { result, stderr } = await simulation.run({ seed, steps, more });
  if (result === null) throw new Error(`the run did not come to an end: ${stderr.slice(-2_000)}`);
  return result.violation ?? undefined;
}
