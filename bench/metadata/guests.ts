import type { NamespaceGuest } from "../../test/harness/metadata/guest.ts";
import { until } from "../../test/harness/wait.ts";
import { BOOT } from "../../test/metadata-node/boot.ts";
import { atMost, type Line, type Measurement, number } from "../line.ts";
import { median, quantile } from "../statistics.ts";
import { type Asked, askAsGuests, PORT, STATIC_PORT, startStaticServer } from "./ask.ts";
import { BenchNode } from "./node.ts";

const WARM_UP = 2_000;
const ROUNDS = 8;
const PAIRS_A_ROUND = 500;
const PATH = "/openstack/latest/meta_data.json";
const VMS = 200;
const BOOT_ROUNDS = 3;
/** Attached at once while the network is filled. */
const ADDS_IN_FLIGHT = 4;

/** A guest of a node that asks in turns our server and haproxy alone. */
class Pairs {
  readonly fresh: Asked[] = [];
  readonly kept: Asked[] = [];
  readonly #both: { readonly ports: number[]; readonly paths: string[]; readonly guests: NamespaceGuest[] };

  private constructor(guest: NamespaceGuest) {
    this.#both = { ports: [PORT, STATIC_PORT], paths: [PATH], guests: [guest] };
  }

  /** Runs work, in which haproxy alone serves too. */
  static async with<T>(node: BenchNode, work: (pairs: Pairs) => Promise<T>): Promise<T> {
    const guest = await node.vm("vm1", node.network("ratio", "10.30.0.0/24"));
    await node.untilServed(guest);
    const stop = await startStaticServer(node, (await guest.ask(PATH)).body);
    try {
      const alone = `http://169.254.169.254:${STATIC_PORT}/`;
      await until(async () => (await guest.ask(alone)).status === 200, "haproxy alone");
      const pairs = new Pairs(guest);
      await askAsGuests("new", WARM_UP, pairs.#both);
      return await work(pairs);
    } finally {
      await stop();
    }
  }

  async round(): Promise<void> {
    this.fresh.push(...(await askAsGuests("new", 2 * PAIRS_A_ROUND, this.#both)));
    this.kept.push(...(await askAsGuests("keep", 2 * PAIRS_A_ROUND, this.#both)));
  }

  ms(of: "fresh" | "kept", port: number): number[] {
    const failed = this[of].filter(({ status }) => status !== 200).length;
    if (failed > 0) throw new Error(`${failed} requests were not answered with 200`);
    return this[of].filter((one) => one.port === port).map(({ us }) => us / 1_000);
  }
}

async function ratios(node: BenchNode): Promise<Line[]> {
  return Pairs.with(node, async (pairs) => {
    for (let round = 0; round < ROUNDS; round += 1) await pairs.round();
    return ratioLines(pairs);
  });
}

function ratioLines(ours: Pairs): Line[] {
  const [fresh, alone] = [ours.ms("fresh", PORT), ours.ms("fresh", STATIC_PORT)];
  const [kept, keptAlone] = [ours.ms("kept", PORT), ours.ms("kept", STATIC_PORT)];
  const each = `${number(ROUNDS * PAIRS_A_ROUND)} each after ${number(WARM_UP)}`;
  const p99 = (ms: number[]) => quantile(ms, 0.99);
  return [
    atMost(median(fresh) / median(alone), 2, "×", {
      what: "metadata GET on a new connection, median",
      against: `haproxy alone with the same bytes, in turns; ${each}`,
      beside: `${number(median(fresh))} ms, haproxy alone ${number(median(alone))} ms`,
    }),
    atMost(p99(fresh), 5, "ms", { what: "the same, p99", against: `haproxy alone ${number(p99(alone))} ms` }),
    atMost(median(kept), 0.2, "ms", {
      what: "metadata GET on a connection kept alive, median",
      against: `haproxy alone ${number(median(keptAlone))} ms, in turns`,
    }),
  ];
}

/** Every VM of a node boots at the same instant, again and again. */
class Boots {
  readonly slowestMs: number[] = [];
  readonly allMs: number[] = [];
  readonly asked: Asked[] = [];
  readonly #guests: readonly NamespaceGuest[];

  private constructor(guests: readonly NamespaceGuest[]) {
    this.#guests = guests;
  }

  static async on(node: BenchNode): Promise<Boots> {
    const network = node.network("boots", "10.40.0.0/20");
    const names = Array.from({ length: VMS }, (_, n) => `vm${n}`).values();
    const guests: NamespaceGuest[] = [];
    const attach = async () => {
      for (const name of names) guests.push(await node.vm(name, network));
    };
    await Promise.all(Array.from({ length: ADDS_IN_FLIGHT }, attach));
    await Promise.all([guests[0], guests.at(-1)].map((guest) => guest && node.untilServed(guest)));
    return new Boots(guests);
  }

  async round(): Promise<void> {
    const startMs = performance.now();
    const what = { ports: [PORT], paths: BOOT, guests: this.#guests };
    const asked = await askAsGuests("new", BOOT.length, what);
    this.allMs.push(performance.now() - startMs);
    this.slowestMs.push(Math.max(...asked.map(({ us }) => us)) / 1_000);
    this.asked.push(...asked);
  }
}

async function boots(node: BenchNode): Promise<Line[]> {
  const ours = await Boots.on(node);
  for (let round = 0; round < BOOT_ROUNDS; round += 1) await ours.round();
  const answered = ours.asked.filter(({ status }) => status === 200 || status === 404).length;
  const ms = ours.asked.map(({ us }) => us / 1_000);
  const times = `${BOOT_ROUNDS} times`;
  return [
    atMost(ours.asked.length - answered, 0, "requests", {
      what: `${VMS} VMs boot at once, ${BOOT.length} requests each: not answered`,
      against: `${number(ours.asked.length)} requests, ${times}; ${number(median(ours.allMs))} ms each time (median)`,
    }),
    atMost(median(ours.slowestMs), 500, "ms", {
      what: "the slowest of them",
      against: `${times}: ${ours.slowestMs.map(number).join(", ")} ms; of all median ${number(median(ms))} ms, p99 ${number(quantile(ms, 0.99))} ms`,
    }),
  ];
}

/** Guests in namespaces behind the real bridge plugin, haproxy and the server. Needs root. */
export const metadataGuests: Measurement = () =>
  BenchNode.with(async (node) => [...(await ratios(node)), ...(await boots(node))]);
