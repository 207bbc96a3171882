// Looks for seeds that find the faults of test/simulation/mutants, and keeps them in test/simulation/mutants/found.json:
//   node tools/hunt-mutants.mjs [--seeds 1-8] [--steps 20000] [--more KIND=WEIGHT,…] [--again] [--keep FILE] [NAME…]
// Without names: those that have no seed yet. A seed counts when the sound product is clean with it, or fails later.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const ROOT = dirname(import.meta.dirname);
/** What others than the oracle find in a world of people is rarely the fault's doing. */
const COUNTS =
  /^(given-|answered-|freed-|published-|changed-|stranger-|wrong-|untold-|held-|rests-|counts|unanswered|not-ready|check-finds|revived|owner-pod|attack)/;
const { values, positionals } = parseArgs({
  options: {
    seeds: { type: "string", default: "1-8" },
    steps: { type: "string", default: "20000" },
    more: { type: "string", default: "" },
    again: { type: "boolean", default: false },
    keep: { type: "string", default: "test/simulation/mutants/found.json" },
  },
  allowPositionals: true,
});
const KEPT = resolve(ROOT, values.keep);
const [from, to] = values.seeds.split("-").map(Number);
const steps = Number(values.steps);
const folder = mkdtempSync("/dev/shm/hunt-");
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
process.on("SIGTERM", () => process.exit(1));
process.on("SIGINT", () => process.exit(1));

const kept = existsSync(KEPT) ? JSON.parse(readFileSync(KEPT, "utf8")) : {};
const sound = new Map();
const soundBundle = bundle(null);
const names = positionals.length > 0 ? positionals : Object.keys(await mutants());
for (const name of names) {
  if (kept[name] && !values.again && positionals.length === 0) continue;
  const found = hunt(name);
  console.log(`${name}: ${found === null ? "not found" : JSON.stringify(found)}`);
  if (found === null) continue;
  kept[name] = found;
  const sorted = Object.fromEntries(Object.entries(kept).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(KEPT, `${JSON.stringify(sorted, null, 2)}\n`);
}

function hunt(name) {
  const made = bundle(name);
  for (let seed = from; seed <= (to ?? from); seed += 1) {
    const { violation, steps: taken } = run(made, seed, steps);
    if (violation === null || !COUNTS.test(violation.kind)) continue;
    const known = sound.get(seed) ?? run(soundBundle, seed, steps);
    sound.set(seed, known);
    console.log(`  ${name} ${seed}: ${violation.kind} after ${taken}: ${violation.message.slice(0, 200)}`);
    if (known.violation === null || (known.violation.kind !== violation.kind && known.steps > taken))
      return { seed, steps: taken, kind: violation.kind, ...(values.more && { more: values.more }) };
  }
  return null;
}

function run(file, seed, count) {
  const result = join(folder, "result.json");
  rmSync(result, { force: true });
  const args = [
    "--seed",
    `${seed}`,
    "--steps",
    `${count}`,
    "--more",
    values.more,
    "--shrink",
    "0",
    "--result",
    result,
  ];
  spawnSync(process.execPath, [file, ...args], { stdio: "ignore", timeout: 300_000 });
  return existsSync(result) ? JSON.parse(readFileSync(result, "utf8")) : { violation: null, steps: 0 };
}

function bundle(name) {
  const out = join(folder, `${name ?? "sound"}.cjs`);
  const args = [join(ROOT, "tools/simulate-bundle.mjs"), "--out", out];
  execFileSync(process.execPath, [...args, ...(name === null ? [] : ["--mutant", name])], {
    stdio: "inherit",
  });
  return out;
}

async function mutants() {
  const entryPoints = [join(ROOT, "test/simulation/mutants/all.ts")];
  const { outputFiles } = await build({
    entryPoints,
    bundle: true,
    write: false,
    platform: "node",
    format: "esm",
  });
  const source = Buffer.from(outputFiles[0].text).toString("base64");
  return (await import(`data:text/javascript;base64,${source}`)).MUTANTS;
}
