import { atMost, type Line, type Measurement, number, told } from "./line.ts";
import { fdatasyncMs } from "./machine.ts";
import { median, quantile } from "./statistics.ts";
import { Workbench } from "./workbench.ts";

const YOUNG_DAEMONS = 3;
const YOUNG_WARM_UP = 20;
const YOUNG_PAIRS = 200;
const WARM_UP = 1_000;
const WARM_PAIRS = 1_500;
/** Where fdatasync takes longer, it takes longer than all the rest: the bound is then the rest, plus one sync. */
const FDATASYNC_CHEAP_MS = 1;

/**
 * From the plugin's start to its end, as the runtime waits for it: ours, durable, beside host-local's, which syncs
 * nothing.
 */
export const addLatency: Measurement = async () => [
  ...(await young()),
  ...(await warm()),
  await filled({ allocations: 5_000, pairs: 15, bound: 0.05 }),
  await filled({ allocations: 60_000, pairs: 7, bound: 0.005 }),
];

async function young(): Promise<Line[]> {
  const ours: number[] = [];
  const theirs: number[] = [];
  const syncs: number[] = [];
  for (let daemon = 0; daemon < YOUNG_DAEMONS; daemon += 1) {
    await Workbench.with(async (bench) => {
      syncs.push(fdatasyncMs(bench.directory));
      await bench.exec([bench.holdfast], { rounds: YOUNG_WARM_UP, undo: true });
      const [a, b] = await pairs(bench, YOUNG_PAIRS);
      ours.push(...a);
      theirs.push(...b);
    });
  }
  const syncMs = median(syncs);
  const hostLocalMs = median(theirs);
  const against = `host-local; ${YOUNG_DAEMONS} × ${YOUNG_PAIRS} pairs after ${YOUNG_WARM_UP} ADDs`;
  const beside = `${number(median(ours))} ms, host-local ${number(hostLocalMs)} ms`;
  const what = "ADD through the plugin, empty network, median";
  const line =
    syncMs <= FDATASYNC_CHEAP_MS
      ? atMost(median(ours) / hostLocalMs, 0.8, "×", { what, against, beside })
      : atMost(median(ours), 0.8 * hostLocalMs + syncMs, "ms", { what, against, beside });
  return [
    line,
    told(`${number(syncMs)} ms`, {
      what: "one fdatasync there, median",
      against: "a page appended, 3 × 200",
    }),
  ];
}

function warm(): Promise<Line[]> {
  return Workbench.with(async (bench) => {
    await bench.exec([bench.holdfast], { rounds: WARM_UP, undo: true });
    const [ours, theirs] = await pairs(bench, WARM_PAIRS);
    const against = `host-local; ${number(WARM_PAIRS)} pairs after ${number(WARM_UP)} ADDs`;
    const p99 = { ours: quantile(ours, 0.99), theirs: quantile(theirs, 0.99) };
    return [
      atMost(p99.ours / p99.theirs, 1, "×", {
        what: "the same on a warm daemon, p99",
        against,
        beside: `${number(p99.ours)} ms, host-local ${number(p99.theirs)} ms`,
      }),
      told(
        `${number(median(ours) / median(theirs))} × (${number(median(ours))} ms, host-local ${number(median(theirs))} ms)`,
        {
          what: "the same on a warm daemon, median",
          against,
        },
      ),
    ];
  });
}

function filled(at: { allocations: number; pairs: number; bound: number }): Promise<Line> {
  return Workbench.with(async (bench) => {
    bench.fillHostLocal(at.allocations);
    await bench.load(at.allocations);
    const [ours, theirs] = await pairs(bench, at.pairs);
    return atMost(median(ours) / median(theirs), at.bound, "×", {
      what: `ADD through the plugin, ${number(at.allocations)} allocations, median`,
      against: `host-local; ${at.pairs} pairs`,
      beside: `${number(median(ours))} ms, host-local ${number(median(theirs))} ms`,
    });
  });
}

/**
 * Milliseconds of ours and of host-local's ADDs, by turns; a DEL after each keeps both networks as full as they were.
 */
async function pairs(bench: Workbench, rounds: number): Promise<[number[], number[]]> {
  const [ours = [], theirs = []] = await bench.exec([bench.holdfast, bench.hostLocal], {
    rounds,
    undo: true,
  });
  return [ours, theirs];
}
