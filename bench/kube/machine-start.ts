import { setTimeout as sleep } from "node:timers/promises";
import type { TestCluster } from "../../test/harness/cluster.ts";
import { atMost, type Line, type Measurement, number, told } from "../line.ts";
import { median } from "../statistics.ts";
import { BenchController, turnMsIn } from "./bench-controller.ts";
import { KubeBench } from "./kube-bench.ts";
import {
  copyMachine,
  createHosts,
  createMachinePool,
  createMachines,
  createTemplate,
  defineMachines,
  isTold,
  METAL3_MACHINES_PATH,
  POOL,
  untilCount,
} from "./machine-objects.ts";
import { QUIET_MS, restLines } from "./machine-writes.ts";

const MACHINES = 10_000;
const STARTS = 2;
const SETTLE_MS = 5_000;

interface Start {
  readonly readyMs: number;
  readonly settledMs: number;
  readonly turnMs: number;
  readonly rssBytes: number;
  readonly peakBytes: number;
}

/** A controller that starts without machines, and with ten thousand that are settled. */
export const kubeMachinesStart: Measurement = () => KubeBench.with("10.0.0.0/8", startLines);

async function startLines({ cluster }: KubeBench): Promise<Line[]> {
  await defineMachines(cluster);
  const flags = ["--machine-data", "own"];
  await BenchController.with(cluster, flags, async () => {
    await createMachinePool(cluster);
    await createTemplate(cluster, "rack", POOL);
    await createHosts(cluster, ["original"]);
    await createMachines(cluster, ["original"], "rack");
    await untilCount(cluster, METAL3_MACHINES_PATH, 1, isTold);
    await sleep(QUIET_MS);
  });
  const empty = await starts(cluster, flags, 1);
  await copyMachine(cluster, "original", "rack", MACHINES - 1);
  const full = await starts(cluster, flags, MACHINES);
  const without = await starts(cluster, [], MACHINES);
  const at = await BenchController.with(cluster, flags, () =>
    restLines(cluster, `${number(MACHINES)} machines that another controller has settled`),
  );
  const rss = (all: readonly Start[]) => median(all.map((one) => one.rssBytes)) / 1e6;
  const against = `${number(MACHINES)} machines, each with claim, address, data, host; ${STARTS} starts`;
  return [
    atMost(Math.max(...full.map((one) => one.readyMs)) / 1_000, 10, "s", {
      what: "start of a controller with so many machines, from exec to ready",
      against,
      beside: `every claim looked at after ${number(Math.max(...full.map((one) => one.settledMs)) / 1_000)} s`,
    }),
    atMost(Math.max(...full.map((one) => one.turnMs)), 100, "ms", {
      what: "longest turn of its event loop",
      against,
    }),
    atMost(rss(full) - rss(empty), 60, "MB", {
      what: "its memory beyond that of one without machines",
      against,
      beside: `${number(rss(full))} MB, at most ${number(Math.max(...full.map((one) => one.peakBytes)) / 1e6)} MB; without ${number(rss(empty))} MB`,
    }),
    told(`${number(rss(without) - rss(empty))} MB`, {
      what: "the same where machine data is not served",
      against,
    }),
    ...at,
  ];
}

async function starts(cluster: TestCluster, flags: readonly string[], claims: number): Promise<Start[]> {
  const all: Start[] = [];
  for (let count = 0; count < STARTS; count += 1)
    all.push(
      await BenchController.with(cluster, flags, async (controller) => {
        const startMs = performance.now() - controller.readyMs;
        const turnsMs: number[] = [];
        for (let known = 0; known < claims; await sleep(200)) {
          const metrics = await controller.metrics();
          turnsMs.push(turnMsIn(metrics));
          known = Number(/machine_claims\{state="fulfilled"\} (\d+)/.exec(metrics)?.[1] ?? 0);
        }
        const settledMs = performance.now() - startMs;
        await sleep(SETTLE_MS);
        turnsMs.push(await controller.longestTurnMs());
        const { readyMs, memory } = controller;
        return { readyMs, settledMs, turnMs: Math.max(...turnsMs), ...memory };
      }),
    );
  return all;
}
