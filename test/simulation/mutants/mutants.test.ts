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
  const stepsBySeed = new Map<number, number>();
  for (const { seed, steps } of Object.values(FOUND))
    stepsBySeed.set(seed, Math.max(steps, stepsBySeed.get(seed) ?? 0));
  for (const [seed, steps] of stepsBySeed) {
    const { violation } = run(bundle, seed, steps);
    expect(violation, `make simulate SEED=${seed} STEPS=${steps}`).toBeNull();
  }
}, 300_000);

test.each(Object.entries(FOUND))("%s is found", (name, { seed, steps, kind }) => {
  const { violation } = run(made(name), seed, steps + STEPS_MORE);
  const how = `node tools/simulate-bundle.mjs --mutant ${name}; node build/simulate-${name}.cjs --seed ${seed} --steps ${steps}`;
  expect(violation?.kind, how).toBe(kind);
});

function made(name: string | null): string {
  const out = join(folder, `${name ?? "sound"}.cjs`);
  const args = [join(ROOT, "tools/simulate-bundle.mjs"), "--out", out];
  execFileSync(process.execPath, name === null ? args : [...args, "--mutant", name], { stdio: "inherit" });
  return out;
}

function run(
  bundle: string,
  seed: number,
  steps: number,
): { violation: { kind: string; message: string } | null } {
  const result = join(folder, "result.json");
  rmSync(result, { force: true });
  const args = ["--seed", `${seed}`, "--steps", `${steps}`, "--shrink", "0", "--result", result];
  const { stderr } = spawnSync(process.execPath, [bundle, ...args], { encoding: "utf8" });
  if (!existsSync(result)) throw new Error(`the run has no result: ${stderr.slice(-2_000)}`);
  return JSON.parse(readFileSync(result, "utf8"));
}
