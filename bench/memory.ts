import { join } from "node:path";
import { TestDaemon } from "../test/harness/daemon.ts";
import { atMost, type Measurement, number, told } from "./line.ts";
import { median } from "./statistics.ts";
import { memoryBytesOf, Workbench } from "./workbench.ts";

const ALLOCATIONS = 100_000;
const STARTS = 3;
const RSS_BYTES_MAX = 150_000_000;
/** Garbage of the start is gone by then. */
const SETTLE_MS = 2_000;

/** As the command line asks them, each once. */
const QUERIES = [
  ...["list", "list -o wide", "list -o json", "show bench", "list --pod a/b", "who 10.0.0.9", "networks"],
  ...["claims", "claims -o json", "content", "history --limit 5000", "check"],
];
const QUERIED_ALLOCATIONS = 50_000;
const QUERIED_BYTES_MAX = 200_000_000;

/**
 * Resident memory of a daemon that is asked everything with 50,000 allocations, that has given 100,000 addresses, and
 * of one that was started with them.
 */
export const memory: Measurement = () =>
  Workbench.with(async (bench) => {
    await sleep(SETTLE_MS);
    const idle = bench.memoryBytes("VmRSS");
    await bench.load(QUERIED_ALLOCATIONS);
    for (const query of QUERIES) await bench.daemon.cli(...query.split(" "));
    await bench.daemon.cli("backup", join(bench.directory, "backup.db"));
    await bench.daemon.get("/metrics");
    await Promise.all(["list", "list", "check", "check"].map((query) => bench.daemon.cli(query)));
    const queried = bench.memoryBytes("VmHWM");
    await bench.load(ALLOCATIONS - QUERIED_ALLOCATIONS);
    await sleep(SETTLE_MS);
    const served = bench.memoryBytes("VmRSS");
    await bench.daemon.end();
    const starts = [];
    for (let start = 0; start < STARTS; start += 1) starts.push(await startAgain(bench.directory));
    const against = `${STARTS} starts, median`;
    const rss = median(starts.map((start) => start.rssBytes));
    return [
      told(megabytes(idle), { what: "memory of an idle daemon", against: "resident set of the process" }),
      atMost(queried / 1e6, QUERIED_BYTES_MAX / 1e6, "MB", {
        what: `memory through every query with ${number(QUERIED_ALLOCATIONS)} allocations`,
        against: "highest resident set of the process; one after another, then two list and two check at once",
      }),
      atMost(served / 1e6, RSS_BYTES_MAX / 1e6, "MB", {
        what: `memory after ${number(ALLOCATIONS)} ADDs, none ended`,
        against: "resident set of the process",
      }),
      atMost(rss / 1e6, RSS_BYTES_MAX / 1e6, "MB", {
        what: `memory of a daemon started with ${number(ALLOCATIONS)} allocations`,
        against: `resident set of the process; ${against}`,
        beside: `at most ${megabytes(Math.max(...starts.map((start) => start.peakBytes)))} meanwhile`,
      }),
      atMost(median(starts.map((start) => start.readyMs)) / 1_000, 1.5, "s", {
        what: "its start, from exec to ready",
        against,
      }),
      told(`${number(median(starts.map((start) => start.longestTurnMs)))} ms`, {
        what: "its longest turn of the event loop until ready",
        against,
      }),
    ];
  });

async function startAgain(directory: string) {
  const startMs = performance.now();
  const daemon = await TestDaemon.start({ directory, wait: false });
  try {
    const readyMs = await readyAfter(daemon, startMs);
    const { body } = await daemon.get("/metrics");
    const longestTurnMs = Number(/^nodejs_eventloop_lag_max_seconds (\S+)/m.exec(body)?.[1]) * 1_000;
    await sleep(SETTLE_MS);
    const { pid } = daemon.process;
    return {
      readyMs,
      longestTurnMs,
      rssBytes: memoryBytesOf(pid, "VmRSS"),
      peakBytes: memoryBytesOf(pid, "VmHWM"),
    };
  } finally {
    await daemon.end();
  }
}

function readyAfter(daemon: TestDaemon, startMs: number): Promise<number> {
  return new Promise((resolve, reject) => {
    daemon.process.stdout?.on("data", (chunk: Buffer) => {
      if (chunk.includes('"msg":"ready"')) resolve(performance.now() - startMs);
    });
    daemon.process.once("exit", () => reject(new Error(`the daemon ended: ${daemon.log}`)));
  });
}

function megabytes(bytes: number): string {
  return `${number(bytes / 1e6)} MB`;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
