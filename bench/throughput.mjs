// Durable ADDs over the socket with 64 in flight, no exec: what the daemon itself can do. Log level as shipped.
import { median } from "./playground.mjs";

const RUNS = 5;
const ADDS = 40_000;

export async function measureThroughput(playground, report) {
  await playground.load(10_000, { seed: 11, name: "warm-up-2" });
  const runs = [];
  for (let run = 0; run < RUNS; run += 1) {
    runs.push(await playground.load(ADDS, { seed: 100 + run, name: `throughput-${run}` }));
  }
  const rate = median(runs.map((run) => run.perSecond));
  const p99Ms = median(runs.map((run) => run.p99Ms));
  const all = runs.map((run) => Math.round(run.perSecond)).join(", ");
  report.row(
    "durable ADDs, 64 in flight, C client",
    "≥ 15,000/s",
    `${Math.round(rate)}/s, median of ${RUNS} × ${ADDS.toLocaleString("en")} (${all})`,
    rate >= 15_000,
  );
  report.row("the same, p99", "≤ 10 ms", `${p99Ms.toFixed(1)} ms, median of ${RUNS}`, p99Ms <= 10);
}
