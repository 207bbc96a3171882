import { addressOf } from "../../allocations/allocation-object.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import type { NodeDaemon } from "../../test/harness/node.ts";
import { atMost, type Measurement, number } from "../line.ts";
import { median, quantile } from "../statistics.ts";
import { BareClient } from "./bare-client.ts";
import { BenchController } from "./bench-controller.ts";
import { fillQuickly, tenth } from "./fill.ts";
import { KubeBench, NETWORK } from "./kube-bench.ts";

const ADDRESSES = 65_534;
const PREFIX_LENGTH = 16;
const FREE_PART = 0.01;
const WARM_UP = 50;
const ADDS = 200;
const NEW_DAEMONS = 5;
const TAKEN = Math.ceil(ADDRESSES * (1 - FREE_PART));

/** A network with one free address in a hundred, at places nobody can guess, as its controller has published it. */
export const kubeFullNetwork: Measurement = () =>
  KubeBench.with("10.0.0.0/16", async (bench) => {
    const { cluster } = bench;
    // As long as it exists, the others' containers may run, and their addresses are kept.
    await bench.kubevirt.createNode("elsewhere");
    const node = await bench.node();
    const bare = new BareClient(cluster);
    try {
      const empty = await BenchController.with(cluster, [], () => serial(bench, bare, node));
      await fillTo(bench, TAKEN);
      const { first, full } = await BenchController.with(cluster, [], async () => {
        await bench.untilPublished(NETWORK, TAKEN);
        const first: number[] = [];
        for (let index = 0; index < NEW_DAEMONS; index += 1) {
          const guests = await bench.pods(1, [await bench.node()]);
          first.push((await bench.cni("ADD", guests, 1)).ms);
          await guests[0]?.node.daemon.end();
        }
        return { first, full: await serial(bench, bare, node) };
      });
      const what = `ADD of a plain pod in a /${PREFIX_LENGTH} with ${FREE_PART * 100} % free`;
      return [
        atMost(median(full.ours) / median(empty.ours), 3, "×", {
          what: `${what}, median`,
          against: `the same while it was empty; ${ADDS} each, after ${WARM_UP}`,
          beside: `${say(full.ours)}, empty ${say(empty.ours)}; bare client ${number(median(full.bare))} and ${number(median(empty.bare))} ms`,
        }),
        atMost(median(first), 100, "ms", {
          what: `${what}, first of a new daemon, median`,
          against: `${NEW_DAEMONS} daemons`,
          beside: first.map((ms) => `${number(ms)} ms`).join(", "),
        }),
      ];
    } finally {
      bare.close();
    }
  });

async function serial(bench: KubeBench, bare: BareClient, node: NodeDaemon) {
  const guests = await bench.pods(WARM_UP + ADDS, [node]);
  const { each } = await bench.cni("ADD", guests, 1);
  const bareMs: number[] = [];
  for (const guest of guests) {
    const startMs = performance.now();
    await bare.plain(guest);
    bareMs.push(performance.now() - startMs);
  }
  return { ours: each.slice(WARM_UP), bare: bareMs.slice(WARM_UP) };
}

/** Takes addresses at random until so many are taken. */
async function fillTo(bench: KubeBench, taken: number): Promise<void> {
  const objects: IPAllocation[] = await bench.cluster.api.list(ALLOCATIONS_PATH);
  const ours = objects.filter(({ spec }) => spec.network === NETWORK);
  const known = new Set(ours.map((object) => addressOf(object).value));
  const free = Array.from({ length: ADDRESSES }, (_, index) => index + 1).filter(
    (index) => !known.has(tenth(index).value),
  );
  shuffle(free);
  await fillQuickly(bench.cluster, NETWORK, PREFIX_LENGTH, free.slice(0, taken - known.size));
}

/** The same order at every run (a linear congruential generator, Numerical Recipes). */
function shuffle(values: number[]): void {
  let seed = 1;
  for (let last = values.length - 1; last > 0; last -= 1) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    const other = Math.floor((seed / 2 ** 32) * (last + 1));
    [values[last], values[other]] = [values[other] as number, values[last] as number];
  }
}

function say(ms: readonly number[]): string {
  return `${number(median(ms))} ms, p99 ${number(quantile(ms, 0.99))} ms`;
}
