import { isDeepStrictEqual } from "node:util";
import type { Log } from "../../platform/log.ts";
import { Notifier } from "../../platform/notifier.ts";
import { logFailure, PeriodicTask } from "../../platform/periodic-task.ts";
import { type Clock, sleep } from "../../platform/time.ts";
import { AWAY_MS_MAX, AWAY_MS_MIN, EXCHANGE_MS_MIN, exchange, METADATA_SERVER, POLL_MS } from "../long-poll.ts";
import { type BalancerPlan, networksIn, planBalancers, REMOVAL } from "./balancer-plan.ts";
import {
  BALANCERS_PATH,
  type BalancerProblem,
  readWantedBalancers,
  type WantedBalancer,
  type WantedBalancers,
} from "./balancers-wire.ts";
import { findNorthbound, type Northbound, type NorthboundRows, openNorthbound, readNorthbound } from "./northbound.ts";

/** Pause while what is wanted cannot be carried out, ms. */
const AGAIN_MS = 1_000;
/** How often the known places are looked at for a database, ms. */
const FIND_MS = 5_000;
/** Pause after a write, ms, doubled with each that follows within PEACE_MS: somebody may undo each. */
const WRITTEN_MS_MIN = 5;
const WRITTEN_MS_MAX = 2_000;
const PEACE_MS = 5_000;
/** For the rows to be removed at the end, ms. */
const STOP_MS_MAX = 3_000;

export interface BalancersOptions {
  /** Socket of the northbound database, `[unix:]/path`; null: where it is usually. */
  readonly northbound: string | null;
  /** This node's name in Kubernetes. */
  readonly node: string;
  /** The socket of `holdfast metadata` for this. */
  readonly socket: string;
  readonly log: Log;
  readonly clock: Clock;
  /** The balancer of a network was not as it had been written. */
  readonly repaired: (network: string) => void;
}

/** Keeps what `holdfast metadata` wants on the node's switches, whoever changes it; while that is away, all stays. */
export class Balancers {
  readonly #options: BalancersOptions;
  readonly #stopping = new AbortController();
  readonly #finding: PeriodicTask;
  readonly #changes: Notifier;
  #polling = new AbortController();
  #northbound: Northbound | null = null;
  #socket: string | null = null;
  #wanted: WantedBalancers | null = null;
  /** The networks that the wanted state was asked for. */
  #asked: readonly string[] = [];
  #networks: readonly string[] = [];
  #applied: string | null = null;
  #problems: readonly BalancerProblem[] = [];
  readonly #written = new Set<string>();
  /** Something may have changed since the database was brought to the wanted state. */
  #dirty = false;
  #busy = false;
  /** null: nobody was asked yet. */
  #heard: boolean | null = null;
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: BalancersOptions) {
    this.#options = options;
    this.#changes = new Notifier(options.clock);
    this.#finding = new PeriodicTask({
      ...{ clock: options.clock, intervalMs: FIND_MS },
      work: () => this.#find(),
      onFailure: logFailure(options.log, "looking for the northbound database"),
    });
  }

  start(): void {
    this.#finding.start();
    this.#running = Promise.all([this.#keep(), this.#follow()]);
  }

  get counts(): { readonly programmed: number; readonly failed: number } {
    const wanted = this.#wanted?.balancers ?? [];
    const failed = new Set(this.#problems.map(({ network }) => network)).size;
    return { programmed: Math.max(0, wanted.length - failed), failed };
  }

  /** Removes the balancers, if the database can be reached. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    void this.#finding.stop();
    this.#polling.abort();
    this.#changes.close();
    await this.#running;
    const northbound = this.#northbound;
    if (northbound === null) return;
    try {
      const own = northbound.rows("Load_Balancer").size;
      if (!(await northbound.contact(own > 0 ? STOP_MS_MAX : 0)) && own > 0) throw new Error("there is no connection");
      if (northbound.connected) await northbound.transact(REMOVAL);
    } catch (error) {
      const problem = (error as Error).message;
      this.#options.log.warn({ socket: this.#socket, problem }, "balancers stay in the northbound database");
    } finally {
      northbound.close();
    }
  }

  /** Opens the database once there is one, and another where it has moved. */
  #find(): void {
    const { northbound: given, clock, log } = this.#options;
    const socket = this.#northbound?.connected ? this.#socket : findNorthbound(given);
    if (socket === null || socket === this.#socket) return;
    this.#northbound?.close();
    this.#socket = socket;
    this.#northbound = openNorthbound({ socket, clock, log, changed: () => this.#touch() });
    this.#northbound.start();
  }

  #touch(): void {
    this.#dirty = true;
    this.#changes.notify();
  }

  async #keep(): Promise<void> {
    const { clock, log } = this.#options;
    let pauseMs = WRITTEN_MS_MIN;
    let writtenMs = Number.NEGATIVE_INFINITY;
    while (!this.#stopping.signal.aborted) {
      await this.#changes.until(() => this.#dirty, POLL_MS);
      if (this.#stopping.signal.aborted || !this.#dirty) continue;
      this.#dirty = false;
      this.#busy = true;
      let hasWritten = true;
      try {
        hasWritten = await this.#bring();
      } catch (error) {
        const problem = (error as Error).message;
        log.warn({ socket: this.#socket, problem }, "balancers cannot be written to the northbound database");
        this.#failed(problem);
        this.#dirty = true;
      }
      this.#busy = false;
      this.#changes.notify();
      if (!hasWritten) continue;
      const nowMs = clock.monotonicMs();
      pauseMs = nowMs - writtenMs > PEACE_MS ? WRITTEN_MS_MIN : Math.min(2 * pauseMs, WRITTEN_MS_MAX);
      writtenMs = nowMs;
      await sleep(clock, pauseMs, this.#stopping.signal);
    }
  }

  /** Resolves with whether something had to be written. */
  async #bring(): Promise<boolean> {
    const northbound = this.#northbound;
    if (northbound === null || !northbound.connected) return false;
    const rows = readNorthbound(northbound);
    const networks = networksIn(rows);
    const wanted = this.#wantedNow(networks);
    if (wanted === null) {
      this.#tell(networks, []);
      return false;
    }
    const foreign = this.#foreignZone(rows);
    if (foreign !== null) {
      this.#applied = this.#wanted?.version ?? null;
      this.#tell(
        networks,
        wanted.map(({ network }) => ({ network, kind: "failed", problem: foreign })),
      );
      return false;
    }
    const version = this.#wanted?.version ?? null;
    const plan = planBalancers(rows, wanted);
    if (plan.operations.length > 0) await northbound.transact(plan.operations);
    this.#note(plan, version);
    this.#applied = version;
    this.#tell(networks, plan.problems);
    return plan.operations.length > 0;
  }

  /** null: nobody has said yet. Networks that have come since somebody was asked stay as they are. */
  #wantedNow(networks: readonly string[]): readonly WantedBalancer[] | null {
    if (networks.length === 0) return [];
    if (this.#wanted === null) return null;
    const later = networks.filter((network) => !this.#asked.includes(network));
    return [...this.#wanted.balancers, ...later.map((network) => ({ network, backends: null, ports: [] }))];
  }

  /** With one database for several nodes each would write its own endpoints for all. */
  #foreignZone({ zone }: NorthboundRows): string | null {
    const { node } = this.#options;
    const other = this.#wanted?.node ?? node;
    if (other !== node)
      return `holdfast metadata answers for node ${JSON.stringify(other)}, and this is ${node}: set --node of both`;
    if (zone === node) return null;
    return (
      `the northbound database ${this.#socket} is of zone ${JSON.stringify(zone)}, and this node is ${node}: balancers ` +
      "need a database of the node's own (OVN-Kubernetes in interconnect mode, one zone for each node)"
    );
  }

  #note({ written, removed }: BalancerPlan, version: string | null): void {
    for (const network of removed)
      this.#options.log.info({ network }, "the balancer of a network is removed: nobody wants it any more");
    for (const network of written) {
      this.#written.add(network);
      // Nothing else was wanted than before: somebody had changed it.
      if (this.#applied !== null && this.#applied === version && this.#asked.includes(network)) {
        this.#options.repaired(network);
      } else this.#options.log.info({ network }, "the balancer of a network is written");
    }
  }

  #failed(problem: string): void {
    const networks = this.#wanted?.balancers.map(({ network }) => network) ?? [];
    this.#tell(
      this.#networks,
      networks.map((network) => ({ network, kind: "failed", problem })),
    );
  }

  /** Reports news at once. */
  #tell(networks: readonly string[], problems: readonly BalancerProblem[]): void {
    const isNews = this.#written.size > 0 || !isDeepStrictEqual([networks, problems], [this.#networks, this.#problems]);
    this.#networks = networks;
    this.#problems = problems;
    if (!isNews) return;
    this.#polling.abort();
    this.#changes.notify();
  }

  /** Follows what `holdfast metadata` wants, while there is a network that it may want something for. */
  async #follow(): Promise<void> {
    const { socket, log, clock } = this.#options;
    let awayMs = AWAY_MS_MIN;
    while (!this.#stopping.signal.aborted) {
      this.#polling = new AbortController();
      await this.#changes.until(() => this.#networks.length > 0, POLL_MS);
      if (this.#stopping.signal.aborted || this.#networks.length === 0) continue;
      const networks = this.#networks;
      const written = [...this.#written];
      const report = { applied: this.#applied, networks, written, problems: this.#problems, waitMs: POLL_MS };
      try {
        const question = { socket, path: BALANCERS_PATH, report, signal: this.#polling.signal };
        const wanted = await exchange(METADATA_SERVER, question, readWantedBalancers);
        if (this.#heard !== true)
          log.info({ socket, balancers: wanted.balancers.length }, "the metadata server is heard");
        this.#heard = true;
        awayMs = AWAY_MS_MIN;
        for (const network of written) this.#written.delete(network);
        this.#wanted = wanted;
        const isNews = wanted.version !== this.#applied || !isDeepStrictEqual(this.#asked, networks);
        this.#asked = networks;
        await sleep(clock, EXCHANGE_MS_MIN, this.#stopping.signal);
        if (!isNews) continue;
        this.#touch();
        await this.#changes.until(() => !this.#dirty && !this.#busy, POLL_MS);
        // The database is away: the same would be answered at once.
        if (wanted.version !== this.#applied) await sleep(clock, AGAIN_MS, this.#stopping.signal);
      } catch (error) {
        if (this.#polling.signal.aborted) continue;
        if (this.#heard !== false)
          log.warn(
            { socket, problem: (error as Error).message },
            "no answer from the metadata server; keeping the current balancers",
          );
        this.#heard = false;
        await sleep(clock, awayMs, this.#stopping.signal);
        awayMs = Math.min(2 * awayMs, AWAY_MS_MAX);
      }
    }
  }
}
