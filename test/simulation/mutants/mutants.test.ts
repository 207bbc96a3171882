import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MUTANTS } from "./all.ts";
import found from "./found.json" with { type: "json" };
import { editsOf } from "./mutant.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FOUND: Readonly<Record<string, unknown>> = found;

test.each(Object.entries(MUTANTS))("each text of %s is in the product exactly once", (_, mutant) => {
  for (const { file, find, replace } of editsOf(mutant)) {
    const text = readFileSync(join(ROOT, file), "utf8");
    expect(text.split(find).length - 1, file).toBe(1);
    expect(replace).not.toBe(find);
  }
});

test("every fault is found by the simulation, or names the test that finds it", () => {
  const untold = Object.entries(MUTANTS).filter(
    ([name, { elsewhere }]) => (FOUND[name] === undefined) === (elsewhere === undefined),
  );
  expect(untold.map(([name]) => name)).toEqual([]);
  expect(Object.keys(FOUND).filter((name) => MUTANTS[name] === undefined)).toEqual([]);
});
