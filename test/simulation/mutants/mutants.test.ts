import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { MUTANTS } from "./all.ts";
import found from "./found.json" with { type: "json" };

const ROOT = join(import.meta.dirname, "../../..");
const folder = mkdtempSync("/dev/shm/mutants-");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

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

test("the sound product is clean with the seeds that find a fault", () => {
  const bundle = made(null);
  const longest = new Map<string, FoundBy>();
  for (const one of Object.values(FOUND)) {
    const key = `${one.seed} ${one.more ?? ""}`;
    if ((longest.get(key)?.steps ?? 0) < one.steps) longest.set(key, one);
  }
  for (const one of longest.values()) expect(run(bundle, one).violation, JSON.stringify(one)).toBeNull();
}, 300_000);

test.each(Object.entries(FOUND))("%s is found", (name, one) => {
  const { violation } = run(made(name), { ...one, steps: one.steps + STEPS_MORE });
  expect(violation?.kind, JSON.stringify(one)).toBe(one.kind);
});

function made(name: string | null): string {
  const out = join(folder, `${name ?? "sound"}.cjs`);
  const args = [join(ROOT, "tools/simulate-bundle.mjs"), "--out", out];
  execFileSync(process.execPath, name === null ? args : [...args, "--mutant", name], { stdio: "inherit" });
  return out;
}

function run(
  bundle: string,
  { seed, steps, more = "" }: FoundBy,
): { violation: { kind: string; message: string } | null } {
  const result = join(folder, "result.json");
  rmSync(result, { force: true });
  const args = [
    "--seed",
    `${seed}`,
    "--steps",
    `${steps}`,
    "--more",
    more,
    "--shrink",
    "0",
    "--result",
    result,
  ];
  const { stderr } = spawnSync(process.execPath, [bundle, ...args], { encoding: "utf8" });
  if (!existsSync(result)) throw new Error(`the run has no result: ${stderr.slice(-2_000)}`);
  return JSON.parse(readFileSync(result, "utf8"));
}
