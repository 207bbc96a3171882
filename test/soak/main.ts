/*
 * test/soak/: a long run with real parts, faults every few seconds, and what it takes (docs/soak.md)
 *
 *   run.mjs            bundles all this and runs it in namespaces of its own
 *   soak               the run: begins, strikes, settles, judges
 *   guests, runtime    VMs and pods that come and go, and the container runtimes that attach them
 *   soak-node, soak-controller, faults   what is struck, and with what
 *   ledger, truth      what was answered, and what must be true of it
 *   recorder, growth   what processes take, and whether it grows
 *   gate, tally, latency, report, patient-api
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Report, textOf } from "./report.ts";
import { Soak } from "./soak.ts";

const INTERRUPTED = 130;
const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    seed: { type: "string", default: String(Date.now() % 1_000_000_007) },
    nodes: { type: "string", default: "8" },
    switches: { type: "string", default: "50" },
    report: { type: "string", default: "build/soak-report.json" },
  },
});

function numberOf(what: "minutes" | "seed" | "nodes" | "switches"): number {
  const value = Number(values[what]);
  if (value > 0) return value;
  console.error(`soak: --${what} ${values[what]}: expected a number above 0`);
  process.exit(2);
}

function interrupted(): void {
  console.error("soak: interrupted");
  process.exit(INTERRUPTED);
}

// With this process its namespaces end, and everything in them.
process.stdin.on("end", interrupted).resume();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, interrupted);

const options = {
  ...{ minutes: numberOf("minutes"), seed: numberOf("seed"), nodes: numberOf("nodes") },
  switches: numberOf("switches"),
};
console.log(`soak of ${options.minutes} minutes, ${options.nodes} nodes: repeat with SEED=${options.seed}`);
try {
  const report: Report = await Soak.run(options);
  writeFileSync(values.report, `${JSON.stringify(report, null, 1)}\n`);
  console.log(`\n${textOf(report)}\n${values.report} has all of it`);
  process.exit(report.verdict === "clean" ? 0 : 1);
} catch (error) {
  console.error("soak: the run could not go on:", error);
  process.exit(1);
}
