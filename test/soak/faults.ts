import type { Random } from "../faults/random.ts";
import type { ProxyAct, ProxyRequest } from "../harness/api-proxy.ts";
import type { TestCluster } from "../harness/cluster.ts";
import { pause } from "../harness/wait.ts";
import type { SoakController } from "./soak-controller.ts";
import type { SoakNode } from "./soak-node.ts";
import type { Tally } from "./tally.ts";

/** Between two faults, ms. */
const PAUSE_MS = { from: 1_500, to: 4_000 };
/** After a fault the cluster is left alone for twice as long, and more: else little but starts would be seen. */
const CLUSTER_REST = { times: 2, moreMs: 10_000 };
const CLUSTER = "cluster";
/** How often an API server or etcd is waited for, a minute each. */
const STARTS_MAX = 4;

export interface FaultTargets {
  readonly cluster: TestCluster;
  readonly nodes: readonly SoakNode[];
  readonly controllers: readonly SoakController[];
}

type Client = SoakNode | SoakController;

/** One kind of fault: `strike` lasts until what it did is over. */
interface Fault {
  readonly kind: string;
  /** How often it is in a deck. */
  readonly weight: number;
  /** Names of what it can strike; one fault at a time is on each. */
  readonly targets: readonly string[];
  strike(target: string, random: Random): Promise<void>;
}

const isWatch = ({ path }: ProxyRequest) => /[?&]watch=(1|true)/.test(path);
const isRequest = (request: ProxyRequest) => !isWatch(request);
const isWrite = (request: ProxyRequest) => request.method !== "GET";

/** On a machine that is very busy a server may take longer than the harness waits for it. */
async function served(start: () => Promise<void>): Promise<void> {
  for (let left = STARTS_MAX; ; left -= 1) {
    try {
      return await start();
    } catch (error) {
      if (left <= 1) throw error;
    }
  }
}

/** From so many to so many seconds, in ms. */
function seconds(random: Random, from: number, to: number): number {
  return Math.round((from + random.next() * (to - from)) * 1_000);
}

/** Injects one fault after another, as a seed deals them: first one of each kind, then decks with more of some. */
export class Faults {
  readonly kinds: readonly Fault[];
  readonly #random: Random;
  readonly #targets: FaultTargets;
  readonly #tally: Tally;
  readonly #struck = new Map<string, Promise<void>>();
  #deck: Fault[];
  #clusterRestsUntilMs = 0;
  #problem: unknown = null;

  constructor(targets: FaultTargets, random: Random, tally: Tally) {
    this.#targets = targets;
    this.#random = random;
    this.#tally = tally;
    this.kinds = [...this.#ofProcesses(), ...this.#ofConnections(), ...this.#ofCluster()];
    this.#deck = this.#shuffled(this.kinds);
  }

  /** Until `isOver`. Throws what a fault could not mend. */
  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await pause(PAUSE_MS.from + this.#random.below(PAUSE_MS.to - PAUSE_MS.from));
      if (!isOver()) this.#next();
      if (this.#problem !== null) throw this.#problem;
    }
  }

  /** Waits until every fault is over, and heals the connections. */
  async heal(): Promise<void> {
    await Promise.all(this.#struck.values());
    for (const { proxy } of this.#clients) {
      proxy.clear();
      proxy.cutConnections();
    }
    if (this.#problem !== null) throw this.#problem;
  }

  get #clients(): readonly Client[] {
    return [...this.#targets.nodes, ...this.#targets.controllers];
  }

  #next(): void {
    const fault = this.#dealt() ?? this.#dealt(this.#newDeck());
    if (fault === null) return;
    const target = this.#random.pick(this.#free(fault));
    this.#tally.fault(fault.kind, target);
    const startMs = performance.now();
    const over = fault
      .strike(target, this.#random)
      .catch((error: unknown) => {
        this.#problem ??= error;
      })
      .finally(() => {
        this.#struck.delete(target);
        const endMs = performance.now();
        if (target === CLUSTER)
          this.#clusterRestsUntilMs = endMs + CLUSTER_REST.times * (endMs - startMs) + CLUSTER_REST.moreMs;
      });
    this.#struck.set(target, over);
  }

  /** The first one that has something to strike now; the others wait at the front. `more` goes below the deck. */
  #dealt(more: readonly Fault[] = []): Fault | null {
    this.#deck.push(...more);
    const at = this.#deck.findIndex((fault) => this.#free(fault).length > 0);
    return at < 0 ? null : (this.#deck.splice(at, 1)[0] ?? null);
  }

  #newDeck(): Fault[] {
    return this.#shuffled(this.kinds.flatMap((kind) => Array<Fault>(kind.weight).fill(kind)));
  }

  #free({ targets }: Fault): readonly string[] {
    const rests = performance.now() < this.#clusterRestsUntilMs;
    return targets.filter((target) => !this.#struck.has(target) && !(rests && target === CLUSTER));
  }

  #shuffled(faults: readonly Fault[]): Fault[] {
    const deck = [...faults];
    for (let last = deck.length - 1; last > 0; last -= 1) {
      const other = this.#random.below(last + 1);
      [deck[last], deck[other]] = [deck[other] as Fault, deck[last] as Fault];
    }
    return deck;
  }

  #ofProcesses(): Fault[] {
    const { nodes, controllers } = this.#targets;
    const of = <T extends Client>(all: readonly T[], strike: (one: T, random: Random) => Promise<void>) => ({
      targets: all.map(({ name }) => name),
      strike: (target: string, random: Random) => strike(all.find(({ name }) => name === target) as T, random),
    });
    const mortal = <T extends Client>(all: readonly T[]) => all.filter(({ isMortal }) => isMortal);
    return [
      {
        ...{ kind: "daemon killed", weight: 4 },
        ...of(mortal(nodes), (node, random) => node.kill(seconds(random, 0, 4))),
      },
      {
        ...{ kind: "daemon frozen", weight: 2 },
        ...of(nodes, (node, random) => node.freeze(seconds(random, 1, 12))),
      },
      {
        ...{ kind: "disk full", weight: 2 },
        ...of(nodes, (node, random) => node.fillDisk(seconds(random, 3, 12))),
      },
      {
        ...{ kind: "controller killed", weight: 1 },
        ...of(mortal(controllers), (one, random) => one.kill(seconds(random, 0, 4))),
      },
      {
        ...{ kind: "controller frozen", weight: 1 },
        ...of(controllers, (one, random) => one.freeze(seconds(random, 5, 25))),
      },
    ];
  }

  #ofConnections(): Fault[] {
    const targets = this.#clients.map(({ name }) => name);
    const proxyOf = (target: string) => (this.#clients.find(({ name }) => name === target) as Client).proxy;
    const during = (
      when: (request: ProxyRequest) => boolean,
      actOf: (random: Random) => ProxyAct,
      lasts: readonly [number, number],
    ) => ({
      targets,
      strike: async (target: string, random: Random) => {
        const proxy = proxyOf(target);
        const mend = proxy.rule({ when, act: actOf(random) });
        await pause(seconds(random, ...lasts));
        mend();
      },
    });
    const slow = (random: Random): ProxyAct => ({ delayMs: 20 + random.below(1_500) });
    return [
      { kind: "connections slow", weight: 3, ...during(() => true, slow, [4, 10]) },
      { kind: "answers lost", weight: 2, ...during(isWrite, () => "drop-answer", [2, 5]) },
      { kind: "requests hang", weight: 1, ...during(isRequest, () => "hang", [2, 6]) },
      {
        ...{ kind: "connections cut", weight: 2, targets },
        strike: async (target) => proxyOf(target).cutConnections(),
      },
      // They stay silent until the client notices, or its connections are cut.
      {
        ...{ kind: "watches silent", weight: 1, targets },
        strike: async (target) => proxyOf(target).silenceWatches(),
      },
      {
        ...{ kind: "API server unreachable", weight: 2, targets },
        strike: async (target, random) => {
          const proxy = proxyOf(target);
          const mend = proxy.rule({ when: () => true, act: "drop-request" });
          proxy.cutConnections();
          await pause(seconds(random, 3, 12));
          mend();
        },
      },
    ];
  }

  #ofCluster(): Fault[] {
    const { cluster } = this.#targets;
    const targets = [CLUSTER];
    return [
      {
        ...{ kind: "API server restarted", weight: 1, targets },
        strike: async (_, random) => {
          await cluster.stopApiServer();
          await pause(seconds(random, 0, 4));
          await served(() => cluster.startApiServer());
        },
      },
      {
        ...{ kind: "etcd restarted", weight: 1, targets },
        strike: async (_, random) => {
          await cluster.stopEtcd();
          await pause(seconds(random, 0, 4));
          await served(() => cluster.startEtcd());
        },
      },
      {
        ...{ kind: "etcd frozen", weight: 1, targets },
        strike: async (_, random) => {
          cluster.pauseEtcd();
          await pause(seconds(random, 1, 8));
          cluster.continueEtcd();
        },
      },
      { ...{ kind: "etcd compacted", weight: 1, targets }, strike: () => cluster.compactEtcd() },
    ];
  }
}
