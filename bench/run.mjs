// `make bench`: every bound that one node without Kubernetes has, measured here and now, beside its baseline in the same run.
// --markdown prints the rows of README.md's table.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { measureAdd } from "./add.mjs";
import { measureCli } from "./cli.mjs";
import { describeMachine } from "./machine.mjs";
import { measureMemory } from "./memory.mjs";
import { Playground } from "./playground.mjs";
import { Report } from "./report.mjs";
import { measureThroughput } from "./throughput.mjs";

const report = new Report({ markdown: process.argv.includes("--markdown") });
const playground = new Playground();
try {
  const machine = describeMachine(playground.folder);
  report.say(machine);
  await playground.start();
  await measureAdd(playground, report);
  measureCli(playground, report);
  await measureThroughput(playground, report);
  await playground.stop();
  await measureMemory(playground, report);
  await reportDecisions();
  report.print(machine);
} finally {
  await playground.remove();
}

async function reportDecisions() {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const outfile = join(folder, "decide.mjs");
  const entry = join(import.meta.dirname, "decide.ts");
  await build({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
  });
  const { measureDecisions } = await import(outfile);
  const means = new Map();
  for (const { name, us, sameAs } of measureDecisions()) {
    means.set(name, us);
    report.row(`decision, ${name}`, "mean ≤ 5 µs", `${us.toFixed(2)} µs`, us <= 5);
    if (sameAs === undefined) continue;
    const ratio = us / means.get(sameAs);
    report.row(`decision, ${name} to ${sameAs}`, "≤ 3 ×", `${ratio.toFixed(2)} ×`, ratio <= 3);
  }
  rmSync(folder, { recursive: true, force: true });
}
