import { atLeast, atMost, type Measurement, number, told } from "./line.ts";
import { median } from "./statistics.ts";
import { Workbench } from "./workbench.ts";

const IN_FLIGHT = 64;
const WARM_UP = 20_000;
const RUNS = 5;
const ADDS_PER_RUN = 40_000;

/** What the daemon itself can do: durable ADDs of containers with random IDs over kept connections, logging as shipped. */
export const throughput: Measurement = () =>
  Workbench.with(async (bench) => {
    await bench.load(WARM_UP, IN_FLIGHT);
    const runs = [];
    for (let run = 0; run < RUNS; run += 1) runs.push(await bench.load(ADDS_PER_RUN, IN_FLIGHT));
    const against = `${RUNS} × ${number(ADDS_PER_RUN)} ADDs after ${number(WARM_UP)}, median of the runs`;
    const rates = runs.map((run) => run.perSecond);
    const p99s = runs.map((run) => run.p99Ms);
    return [
      atLeast(median(rates), 15_000, "ADD/s", {
        what: `durable ADDs, ${IN_FLIGHT} in flight, no plugin executed`,
        against,
        beside: `${number(Math.min(...rates))} to ${number(Math.max(...rates))}`,
      }),
      atMost(median(p99s), 10, "ms", {
        what: "the same, p99",
        against,
        beside: `${number(Math.min(...p99s))} to ${number(Math.max(...p99s))}`,
      }),
      told(
        `${number(median(runs.map((run) => run.p50Ms)))} ms, ${number(Math.max(...runs.map((run) => run.maxMs)))} ms`,
        {
          what: "the same, median and longest",
          against,
        },
      ),
    ];
  });
