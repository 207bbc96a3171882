import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, type Simulated, Simulation } from "../simulate.ts";
import { growthOf, judged } from "./compared.ts";

/** Enough of them that what they do together shows; test/simulation/long has a large cluster. */
const NODES = 10;
const SEED = 1;
const [FEW, MANY] = [200, 2_000];

let simulation: Simulation;
beforeAll(() => {
  simulation = new Simulation();
}, PATIENCE_MS);
afterAll(() => simulation.remove());
const patience = { timeout: PATIENCE_MS };

const large = (one: Simulation, allocations: number): Promise<Simulated> =>
  one.run({ large: allocations, nodes: NODES, seed: SEED });

test("what a node asks for does not follow what the cluster holds", patience, async () => {
  const [few, many] = await Promise.all([large(simulation, FEW), large(simulation, MANY)]);
  expect(judged(few)).toBe("clean");
  expect(judged(many)).toBe("clean");
  expect(growthOf(few, many)).toEqual([]);
});
