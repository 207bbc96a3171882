// Looks for seeds that find the faults of test/simulation/mutants, and keeps them in
// test/simulation/mutants/found.json:
//   node tools/hunt-mutants.mjs [--seeds 1-8] [--steps 5000] [--nodes 5] [--more KIND=WEIGHT,…] [--keep FILE] [NAME…]
//   node tools/hunt-mutants.mjs --refresh     # those that are kept, each from its own seed on, as it was found
// Without names: those that have no seed yet. A seed counts when the sound product is clean in the same history.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const ROOT = dirname(import.meta.dirname);
/** How many seeds are tried of one that is kept. */
const REFRESHED_WITHIN = 12;
const { values, positionals } = parseArgs({
  options: {
    seeds: { type: "string", default: "1-8" },
    steps: { type: "string", default: "5000" },
    nodes: { type: "string", default: "5" },
    more: { type: "string", default: "" },
    refresh: { type: "boolean", default: false },
    keep: { type: "string", default: "test/simulation/mutants/found.json" },
  },
  allowPositionals: true,
});
const KEPT = resolve(ROOT, values.keep);
const directory = mkdtempSync("/dev/shm/hunt-");
process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
process.on("SIGTERM", () => process.exit(1));
process.on("SIGINT", () => process.exit(1));

const kept = existsSync(KEPT) ? JSON.parse(readFileSync(KEPT, "utf8")) : {};
const soundBundle = bundle(null);
const all = Object.keys(await mutants());
const isMeant = (name) => (values.refresh ? kept[name] !== undefined : kept[name] === undefined);
for (const name of positionals.length > 0 ? positionals : all.filter(isMeant)) {
  const found = hunt(name, placesOf(name));
  console.log(`${name}: ${found === null ? "not found" : JSON.stringify(found)}`);
  if (found === null) continue;
  kept[name] = found;
  const sorted = Object.fromEntries(Object.entries(kept).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(KEPT, `${JSON.stringify(sorted, null, 2)}\n`);
}

/** Where it is looked for. */
function placesOf(name) {
  const known = values.refresh ? kept[name] : undefined;
  if (known !== undefined) return { ...known, from: known.seed, to: known.seed + REFRESHED_WITHIN - 1 };
  const [from, to = from] = values.seeds.split("-").map(Number);
  return { from, to, steps: Number(values.steps), nodes: Number(values.nodes), more: values.more };
}

/** `steps`: before the last time of peace; `took`: with it, until something was wrong. */
function hunt(name, { from, to, steps, nodes = 5, more = "" }) {
  const made = bundle(name);
  for (let seed = from; seed <= to; seed += 1) {
    const { violation, steps: took } = run(made, { seed, steps, nodes, more });
    if (violation === null) continue;
    const sound = run(soundBundle, { seed, steps, nodes, more });
    const beside = sound.violation === null ? "" : `; so is the sound product: ${sound.violation.kind}`;
    const [message] = violation.message.slice(0, 200).split("\n");
    console.log(`  ${name} ${seed}: ${violation.kind} after ${took}: ${message}${beside}`);
    if (sound.violation === null) return { seed, steps, nodes, took, kind: violation.kind, ...(more && { more }) };
  }
  return null;
}

function run(file, history) {
  const result = join(directory, "result.json");
  rmSync(result, { force: true });
  const flags = { ...history, shrink: 0, result, keep: join(directory, "kept.json") };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  spawnSync(process.execPath, [file, ...args], { stdio: "ignore", timeout: 300_000 });
  if (!existsSync(result)) throw new Error(`seed ${history.seed} did not come to an end`);
  return JSON.parse(readFileSync(result, "utf8"));
}

function bundle(name) {
  const out = join(directory, `${name ?? "sound"}.cjs`);
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
