import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { atLeast, atMost, type Measurement, number, told } from "./line.ts";
import { median } from "./statistics.ts";
import { Workbench } from "./workbench.ts";

const IN_FLIGHT = 64;
const WARM_UP = 20_000;
const RUNS = 10;
const ADDS_PER_RUN = 20_000;
const BARE_SERVER = "build/bench/bare-server.mjs";

/**
 * What the daemon itself can do: durable ADDs of containers with random IDs over kept connections, logging as shipped;
 * by turns with a bare loop, as disks and processors differ more than anything that could be mended here.
 */
export const throughput: Measurement = () =>
  Workbench.with((bench) =>
    withBareServer(bench.directory, async (bareSocket) => {
      const bareLoad = (count: number) => bench.load(count, IN_FLIGHT, bareSocket);
      await bench.load(WARM_UP, IN_FLIGHT);
      await bareLoad(WARM_UP);
      const runs = [];
      const bareRuns = [];
      for (let run = 0; run < RUNS; run += 1) {
        runs.push(await bench.load(ADDS_PER_RUN, IN_FLIGHT));
        bareRuns.push(await bareLoad(ADDS_PER_RUN));
      }
      const against = `${RUNS} × ${number(ADDS_PER_RUN)} ADDs after ${number(WARM_UP)}, median of the runs`;
      const rates = runs.map((run) => run.perSecond);
      const bareRates = bareRuns.map((run) => run.perSecond);
      const p99s = runs.map((run) => run.p99Ms);
      return [
        atLeast(median(rates) / median(bareRates), 0.6, "×", {
          what: `durable ADDs, ${IN_FLIGHT} in flight, no plugin executed, rate`,
          against: `a bare loop: such a server that inserts one row of the same size; by turns, ${against}`,
          beside: `${number(median(rates))}/s, bare loop ${number(median(bareRates))}/s`,
        }),
        atLeast(median(rates), 15_000, "ADD/s", { what: "the same", against, beside: range(rates) }),
        atMost(median(p99s), 10, "ms", { what: "the same, p99", against, beside: range(p99s) }),
        told(
          `${number(median(runs.map((run) => run.p50Ms)))} ms, ${number(Math.max(...runs.map((run) => run.maxMs)))} ms`,
          { what: "the same, median and longest", against },
        ),
      ];
    }),
  );

/** Runs work beside a bare server on a directory of its own; idle it takes nothing from the daemon. */
async function withBareServer<T>(parent: string, work: (socket: string) => Promise<T>): Promise<T> {
  const directory = join(parent, "bare");
  mkdirSync(directory);
  const server = spawn(process.execPath, [BARE_SERVER, directory], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(server, "exit");
  try {
    const serves = once(server.stdout, "data");
    await Promise.race([serves, exited.then(() => Promise.reject(new Error("the bare server ended")))]);
    return await work(join(directory, "s.sock"));
  } finally {
    server.kill("SIGTERM");
    await exited;
  }
}

function range(values: readonly number[]): string {
  return `${number(Math.min(...values))} to ${number(Math.max(...values))}`;
}
