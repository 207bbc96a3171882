import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import { addressOf } from "../../store/cluster/allocations/allocation-object.ts";
import type { NodeDaemon } from "../../test/harness/node.ts";
import { until } from "../../test/harness/wait.ts";
import { atMost, type Measurement, number, told } from "../line.ts";
import { median, quantile } from "../statistics.ts";
import { BareClient } from "./bare-client.ts";
import { fill, stranger, tenth } from "./fill.ts";
import { type Guest, KubeBench, NETWORK } from "./kube-bench.ts";

const ADDRESSES = 65_534;
const PREFIX_LENGTH = 16;
const FREE_PART = 0.01;
const WARM_UP = 50;
const ADDS = 200;
/** Daemons that were started before the network filled, and make one ADD each. */
const UNKNOWING = 5;
const FOLLOWED_MS_MAX = 120_000;

/** A network with one free address in a hundred, at places nobody can guess. */
export const kubeFullNetwork: Measurement = () =>
  KubeBench.with("10.0.0.0/16", async (bench) => {
    const node = await bench.node();
    const bare = new BareClient(bench.cluster);
    try {
      const empty = await serial(bench, bare, node);
      const unknowing: Guest[] = [];
      for (let index = 0; index < UNKNOWING; index += 1)
        unknowing.push(...(await bench.pods(1, [await bench.node()])));
      await fillTo(bench, Math.ceil(ADDRESSES * (1 - FREE_PART)));
      const first: number[] = [];
      for (const guest of unknowing) {
        first.push((await bench.cni("ADD", [guest], 1)).ms);
        // It follows the network from now on: the others shall not feel it.
        await guest.node.daemon.end();
      }
      await node.restart("SIGTERM");
      const next = await bench.cni("ADD", await bench.pods(1, [node]), 1);
      await followed(bench, node);
      const full = await serial(bench, bare, node);
      const what = `ADD of a plain pod in a /${PREFIX_LENGTH} with ${FREE_PART * 100} % free`;
      return [
        atMost(median(full.ours) / median(empty.ours), 3, "×", {
          what: `${what}, network followed, median`,
          against: `the same while it was empty; ${ADDS} each, after ${WARM_UP}`,
          beside: `${say(full.ours)}, empty ${say(empty.ours)}; bare client ${number(median(full.bare))} and ${number(median(empty.bare))} ms`,
        }),
        atMost(median(first) / 1_000, 1, "s", {
          what: `${what}, first of a daemon that knows of nothing, median`,
          against: `${UNKNOWING} daemons started before the others' allocations`,
          beside: first.map((ms) => `${number(ms)} ms`).join(", "),
        }),
        told(`${number(next.ms)} ms`, {
          what: `${what}, first of a daemon that has just listed them`,
          against: "a single one: the first also counts what is free",
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
  const indexes = free.slice(0, taken - known.size);
  const entries = indexes.map((index) => ({ index, holder: stranger(index) }));
  await fill(bench.cluster, NETWORK, PREFIX_LENGTH, entries);
}

/** Until the daemon has heard of an allocation that somebody else has just made. */
async function followed(bench: KubeBench, node: NodeDaemon): Promise<void> {
  const says = "following its allocations";
  await until(() => node.log.includes(says), "the network to be followed", FOLLOWED_MS_MAX);
  const free = await freeSeenBy(node);
  const probe = await unused(bench);
  await fill(bench.cluster, NETWORK, PREFIX_LENGTH, [{ index: probe, holder: stranger(probe) }]);
  await until(async () => (await freeSeenBy(node)) < free, "the news of an allocation", FOLLOWED_MS_MAX);
}

async function unused(bench: KubeBench): Promise<number> {
  const objects: IPAllocation[] = await bench.cluster.api.list(ALLOCATIONS_PATH);
  const taken = new Set(
    objects.filter(({ spec }) => spec.network === NETWORK).map((one) => addressOf(one).value),
  );
  for (let index = ADDRESSES; index > 0; index -= 1) if (!taken.has(tenth(index).value)) return index;
  throw new Error("the network is full");
}

async function freeSeenBy(node: NodeDaemon): Promise<number> {
  const view = (await node.daemon.get(`/v1/networks/${NETWORK}`)).json();
  return Number(view.ranges[0].free);
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
