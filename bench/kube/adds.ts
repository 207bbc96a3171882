import { atLeast, atMost, type Line, type Measurement, number, told } from "../line.ts";
import { median, quantile, sum } from "../statistics.ts";
import { processorMsOf } from "../workbench.ts";
import { BareClient } from "./bare-client.ts";
import { importNetworks } from "./bench-controller.ts";
import { type Guest, KubeBench } from "./kube-bench.ts";
import { inParallel } from "./parallel.ts";

const SERIAL_WARM_UP = 100;
const SERIAL_ADDS = 500;
/** ADDs of ours and of the bare client's in turn, so that a disturbance meets both. */
const SERIAL_TURN = 50;

/** Of the processor time: V8 has optimised by then what an ADD runs. */
const PROCESSOR_WARM_UP = 2_000;
const PROCESSOR_ADDS = 1_000;
const PROCESSOR_TURN = 250;
const COLD_ADDS = 50;

const NODES = 4;
const IN_FLIGHT = 8;
const ROUNDS = 6;
const ADDS_PER_ROUND = 240;

const BARE = "a bare client that makes the same API calls";

/**
 * From the plugin's start to its end, one at a time, on a node of a cluster; and what one costs the daemon's processor.
 */
export const kubeAdds: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async (bench) => {
    await importNetworks(bench);
    await bench.node();
    const bare = new BareClient(bench.cluster);
    try {
      const count = SERIAL_WARM_UP + SERIAL_ADDS;
      const claims = await serial(bench, await bench.vms(count), (guest) => bare.claim(guest));
      const plain = await serial(bench, await bench.pods(count), (guest) => bare.plain(guest));
      return [
        serialLine("ADD that uses a claim for the first time, median", 15, claims),
        serialLine("ADD of a plain pod, median", 8, plain),
        ...(await processorLines(bench, bare)),
      ];
    } finally {
      bare.close();
    }
  });

/** The same of VMs that ask for an address, and of VMs that do not, by turns. */
export const kubeRequestedAdds: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async (bench) => {
    await importNetworks(bench);
    await bench.node();
    const count = SERIAL_WARM_UP + SERIAL_ADDS;
    const given = await bench.vms(count);
    const asking = await bench.vms(count, bench.nodes, (number) => `10.200.${number >> 7}.${1 + (number & 0x7f)}`);
    const ms = { given: [] as number[], asked: [] as number[] };
    const requests = { given: 0, asked: 0 };
    for (let from = 0; from < count; from += SERIAL_TURN) {
      for (const [kind, guests] of [
        ["given", given],
        ["asked", asking],
      ] as const) {
        const before = await bench.requests();
        const { each } = await bench.cni("ADD", guests.slice(from, from + SERIAL_TURN), 1);
        requests[kind] += (await bench.requests()) - before;
        ms[kind].push(...each);
      }
    }
    const [asked, allocated] = [ms.asked, ms.given].map((one) => median(one.slice(SERIAL_WARM_UP)));
    return [
      atMost((asked ?? 0) / (allocated ?? 1), 1.05, "×", {
        what: "ADD that uses a claim for the first time and asks for its address, beside one that is allocated",
        against: `medians of ${SERIAL_ADDS} each, in turns of ${SERIAL_TURN}, after ${SERIAL_WARM_UP}`,
        beside: `${number(asked ?? 0)} ms, ${number(requests.asked / count)} requests each; allocated ${number(allocated ?? 0)} ms, ${number(requests.given / count)} requests`,
      }),
    ];
  });

/** Four nodes that start many pods at once. */
export const kubeParallelAdds: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async (bench) => {
    await importNetworks(bench);
    for (let node = 0; node < NODES; node += 1) await bench.node();
    const bare = new BareClient(bench.cluster);
    try {
      const count = (ROUNDS + 1) * ADDS_PER_ROUND;
      const claims = await rounds(bench, await bench.vms(count), (guest) => bare.claim(guest));
      const plain = await rounds(bench, await bench.pods(count), (guest) => bare.plain(guest));
      return [...parallelLines("first use of a claim", 150, claims), ...parallelLines("plain pods", 250, plain)];
    } finally {
      bare.close();
    }
  });

interface Sides {
  readonly ours: number[];
  readonly bare: number[];
}

interface Serial extends Sides {
  /** Requests of the daemon to the API server, for one ADD. */
  readonly requests: number;
}

interface Rounds {
  /** ADDs a second. */
  readonly rates: { readonly ours: number; readonly bare: number };
  /** Milliseconds of each ADD of ours. */
  readonly each: readonly number[];
}

async function serial(
  bench: KubeBench,
  guests: readonly Guest[],
  bare: (guest: Guest) => Promise<void>,
): Promise<Serial> {
  const sides: Sides = { ours: [], bare: [] };
  const before = await bench.requests();
  for (let from = 0; from < guests.length; from += SERIAL_TURN) {
    const turn = guests.slice(from, from + SERIAL_TURN);
    const { each } = await bench.cni("ADD", turn, 1);
    sides.ours.push(...each);
    for (const guest of turn) {
      const startMs = performance.now();
      await bare(guest);
      sides.bare.push(performance.now() - startMs);
    }
  }
  const requests = ((await bench.requests()) - before) / guests.length;
  return { ours: sides.ours.slice(SERIAL_WARM_UP), bare: sides.bare.slice(SERIAL_WARM_UP), requests };
}

function serialLine(what: string, bound: number, { ours, bare, requests }: Serial): Line {
  return atMost(median(ours), bound, "ms", {
    what,
    against: `${BARE}; ${SERIAL_ADDS} each, in turns of ${SERIAL_TURN}, after ${SERIAL_WARM_UP}`,
    beside: `p99 ${number(quantile(ours, 0.99))} ms, ${number(requests)} requests each; bare client ${number(median(bare))} ms, p99 ${number(quantile(bare, 0.99))} ms`,
  });
}

/** Processor time of an ADD: warm, and of the first ones of a daemon that has just started. */
async function processorLines(bench: KubeBench, bare: BareClient): Promise<Line[]> {
  const [warm, cold] = [await bench.node(), await bench.node()];
  await bench.cni("ADD", await bench.pods(PROCESSOR_WARM_UP, [warm]), 1);
  const plain = await processor(bench, await bench.pods(PROCESSOR_ADDS, [warm]), (guest) => bare.plain(guest));
  const claims = await processor(bench, await bench.vms(PROCESSOR_ADDS, [warm]), (guest) => bare.claim(guest));
  const first = await processor(bench, await bench.pods(COLD_ADDS, [cold]), (guest) => bare.plain(guest));
  const against = `${BARE}; mean of ${number(PROCESSOR_ADDS)} each, in turns of ${PROCESSOR_TURN}, one at a time, after ${number(PROCESSOR_WARM_UP)} ADDs of plain pods`;
  const beside = (bareMs: number) => `bare client ${number(bareMs)} ms`;
  return [
    atMost(plain.ours, 1.5, "ms", {
      what: "processor time of an ADD: the daemon's, of a plain pod",
      against,
      beside: beside(plain.bare),
    }),
    told(`${number(claims.ours)} ms (${beside(claims.bare)})`, {
      what: "the same of a claim that is used for the first time",
      against,
    }),
    told(`${number(first.ours)} ms`, {
      what: "the same of a plain pod, right after the start",
      against: `mean of the first ${COLD_ADDS}`,
    }),
  ];
}

async function processor(
  bench: KubeBench,
  guests: readonly Guest[],
  bare: (guest: Guest) => Promise<void>,
): Promise<{ readonly ours: number; readonly bare: number }> {
  const ms = { ours: 0, bare: 0 };
  for (let from = 0; from < guests.length; from += PROCESSOR_TURN) {
    const turn = guests.slice(from, from + PROCESSOR_TURN);
    const pid = turn[0]?.node.process.pid;
    const beforeMs = processorMsOf(pid);
    await bench.cni("ADD", turn, 1);
    ms.ours += processorMsOf(pid) - beforeMs;
    const beforeBare = process.cpuUsage();
    for (const guest of turn) await bare(guest);
    const { user, system } = process.cpuUsage(beforeBare);
    ms.bare += (user + system) / 1_000;
  }
  return { ours: ms.ours / guests.length, bare: ms.bare / guests.length };
}

async function rounds(
  bench: KubeBench,
  guests: readonly Guest[],
  bare: (guest: Guest) => Promise<void>,
): Promise<Rounds> {
  const ms: Sides = { ours: [], bare: [] };
  const each: number[] = [];
  for (let from = 0; from < guests.length; from += ADDS_PER_ROUND) {
    const round = guests.slice(from, from + ADDS_PER_ROUND);
    const ours = await bench.cni("ADD", round, IN_FLIGHT);
    const startMs = performance.now();
    await inParallel(round, NODES * IN_FLIGHT, bare);
    const bareMs = performance.now() - startMs;
    // The first round warms up both.
    if (from === 0) continue;
    ms.ours.push(ours.ms);
    ms.bare.push(bareMs);
    each.push(...ours.each);
  }
  const rate = (side: readonly number[]) => (side.length * ADDS_PER_ROUND * 1_000) / sum(side);
  return { rates: { ours: rate(ms.ours), bare: rate(ms.bare) }, each };
}

function parallelLines(what: string, bound: number, { rates, each }: Rounds): Line[] {
  const against = `${ROUNDS} × ${ADDS_PER_ROUND} ADDs, by turns, after one round`;
  return [
    atLeast(rates.ours, bound, "ADD/s", {
      what: `ADDs of ${NODES} nodes, ${IN_FLIGHT} at a time on each: ${what}`,
      against,
      beside: `median ${number(median(each))} ms, p99 ${number(quantile(each, 0.99))} ms`,
    }),
    atLeast(rates.ours / rates.bare, 0.6, "×", {
      what: `the same beside ${BARE}`,
      against: `${NODES * IN_FLIGHT} at a time; ${against}`,
      beside: `${number(rates.ours)}/s, bare client ${number(rates.bare)}/s`,
    }),
  ];
}
