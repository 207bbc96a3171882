import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PATIENCE_MS, Simulation } from "../simulate.ts";
import { MUTANTS } from "./all.ts";
import found from "./found.json" with { type: "json" };

const ROOT = join(import.meta.dirname, "../../..");
const patience = { timeout: PATIENCE_MS };

interface FoundBy {
  readonly seed: number;
  readonly steps: number;
  readonly kind: string;
  /** What happens more often than usually in it. */
  readonly more?: string;
}
const FOUND: Readonly<Record<string, FoundBy>> = found;
/** What has been changed elsewhere may make a fault show a little later. */
const STEPS_MORE = 5_000;

test.each(Object.entries(MUTANTS))(
  "the text of %s is in the product exactly once",
  (_, { file, find, replace }) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    expect(text.split(find).length - 1, file).toBe(1);
    expect(replace).not.toBe(find);
  },
);

test("the sound product is clean with the seeds that find a fault", patience, async () => {
  const longest = new Map<string, FoundBy>();
  for (const one of Object.values(FOUND)) {
    const key = `${one.seed} ${one.more ?? ""}`;
    if ((longest.get(key)?.steps ?? 0) < one.steps) longest.set(key, one);
  }
  const simulation = new Simulation();
  try {
    for (const one of longest.values())
      expect((await violationIn(simulation, one))?.message, JSON.stringify(one)).toBeUndefined();
  } finally {
    simulation.remove();
  }
});

test.each(Object.entries(FOUND))("%s is found", patience, async (name, one) => {
  const simulation = new Simulation(name);
  try {
    const violation = await violationIn(simulation, { ...one, steps: one.steps + STEPS_MORE });
    expect(violation?.kind, JSON.stringify(one)).toBe(one.kind);
  } finally {
    simulation.remove();
  }
});

/** What is wrong in a history; undefined: nothing. */
async function violationIn(simulation: Simulation, { seed, steps, more = "" }: FoundBy) {
  const { result, stderr } = await simulation.run({ seed, steps, more });
  if (result === null) throw new Error(`the run did not come to an end: ${stderr.slice(-2_000)}`);
  return result.violation ?? undefined;
}
