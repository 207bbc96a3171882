import { afterAll, beforeAll, expect, test } from "vitest";
import { growthOf, judged } from "../large/compared.ts";
import { LARGE } from "../mutants/large.ts";
import { PATIENCE_MS, Simulation } from "../simulate.ts";

/** 200 nodes with 5 pods each, and later 6. */
const NODES = 200;
const SEED = 1;
const [FEW, MANY] = [2_000, 20_000];
/** A fault shows in a small cluster too. */
const SMALL = { nodes: 10, large: 200, seed: 1 };
/** How each is found. */
const KINDS: Readonly<Record<string, string>> = {
  "node-lists-everything": "reads-the-cluster",
  "node-lists-its-own-again": "lists-at-rest",
  "retry-after-ignored": "retries-early",
  "retries-without-jitter": "retries-together",
  "retry-after-without-jitter": "retries-together",
};

let sound: Simulation;
beforeAll(() => {
  sound = new Simulation();
}, PATIENCE_MS);
afterAll(() => sound.remove());
const patience = { timeout: PATIENCE_MS };
/** Both together take minutes of two processors that do nothing else, ms. */
const LARGE_PATIENCE_MS = 4 * PATIENCE_MS;

test("two hundred nodes ask for the same in a cluster of 2,000 allocations and in one of 20,000", {
  timeout: LARGE_PATIENCE_MS,
}, async () => {
  console.log(`make simulate SEED=${SEED} NODES=${NODES} LARGE=${MANY}`);
  const told = (large: number) => sound.run({ large, nodes: NODES, seed: SEED });
  const [few, many] = await Promise.all([told(FEW), told(MANY)]);
  expect(judged(few)).toBe("clean");
  expect(judged(many)).toBe("clean");
  expect(growthOf(few, many)).toEqual([]);
});

test.each(Object.keys(LARGE))("%s is found", patience, async (name) => {
  const spoiled = new Simulation(name);
  try {
    const { result } = await spoiled.run(SMALL);
    expect(result?.violation?.kind).toBe(KINDS[name]);
  } finally {
    spoiled.remove();
  }
});
