import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FAULT_NAMES } from "./rules.ts";
import { WORLDS } from "./worlds.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SIMULATION = join(ROOT, "test/simulation");
const page = readFileSync(join(import.meta.dirname, "README.md"), "utf8");
const [, absent = ""] = page.split("\n## What it does not have\n");

const quoted = (text: string, form: RegExp): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name).filter((name) => form.test(name));

test("the page has each world and each fault in a row of its own", () => {
  const rows = [...page.matchAll(/^\| `([a-z-]+)` +\|/gm)].map(([, name]) => name);
  expect(rows.sort()).toEqual([...Object.keys(WORLDS), ...FAULT_NAMES].sort());
});

test("the files that the page names are there", () => {
  const files = quoted(page, /^[a-z-]+\/.*(\.ts|\/)$/);
  expect(files.length).toBeGreaterThan(12);
  expect(files.filter((file) => !existsSync(join(ROOT, file)) && !existsSync(join(SIMULATION, file)))).toEqual([]);
});

test("the simulation has the actions that the page names", () => {
  const named = quoted(absent, /^[a-z]+(-[a-z]+)+$/);
  expect(named.length).toBeGreaterThan(10);
  const text = globSync(`${SIMULATION}/**/*.ts`).map((file) => readFileSync(file, "utf8"));
  expect(named.filter((name) => !text.some((one) => one.includes(`"${name}": {`)))).toEqual([]);
});
