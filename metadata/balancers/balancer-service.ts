import { isDeepStrictEqual } from "node:util";
import type { BalancerReport, WantedBalancer, WantedBalancers } from "../../guests/ovn/balancers-wire.ts";
import type { EventObject, EventWriter } from "../../kube/events.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { Log } from "../../platform/log.ts";
import { Notifier } from "../../platform/notifier.ts";
import { PeriodicTask } from "../../platform/periodic-task.ts";
import type { Clock } from "../../platform/time.ts";
import type { NetworkBackends } from "../tenant/services.ts";
import { BalancerEvents } from "./balancer-events.ts";

/** After a change, ms: many come together. */
const SOON_MS = 20;
/** Pause after a failure to learn the backends of a network, ms. */
const AGAIN_MS = 1_000;
/** Pods may get another address without a change of what is watched, ms. */
const LOOK_MS = 30_000;

/** Where the backends of networks come from. */
interface BackendSource {
  /** Calls back after each change that may be one of backends. */
  watch(changed: () => void): void;
  /** null: the network is not one of OVN-Kubernetes that refers to a Service. Throws ApiAway. */
  backendsOnNetwork(network: string): Promise<NetworkBackends | null>;
}

export interface BalancerServiceOptions {
  readonly source: BackendSource;
  readonly events: Pick<EventWriter, "warn" | "inform">;
  readonly node: string;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
}

/** The balancers that this node's networks want, computed whenever a reference, Service or endpoint has changed. */
export class BalancerService {
  readonly #options: BalancerServiceOptions;
  readonly #notifier: Notifier;
  readonly #events: BalancerEvents;
  readonly #owners = new Map<string, EventObject>();
  /** With a switch on this node, as metadata-net has it. */
  #networks: readonly string[] = [];
  #balancers: readonly WantedBalancer[] = [];
  #number = 1;
  /** A version is one of this process. */
  readonly #run: string;
  /** The networks that the balancers are computed for. */
  #computedFor: readonly string[] | null = null;
  readonly #computing: PeriodicTask;

  constructor(options: BalancerServiceOptions) {
    this.#options = options;
    this.#notifier = new Notifier(options.clock);
    this.#events = new BalancerEvents(options.events, options.node);
    this.#run = `${process.pid}.${Math.trunc(options.clock.wallMs())}`;
    this.#computing = new PeriodicTask({
      ...{ clock: options.clock, settleMs: SOON_MS, intervalMs: LOOK_MS, unref: true },
      work: () => this.#compute(),
    });
    options.source.watch(() => this.#networks.length > 0 && this.#computing.trigger());
  }

  start(): void {
    this.#computing.start(LOOK_MS);
  }

  /** Releases all waiters. */
  async stop(): Promise<void> {
    this.#notifier.close();
    await this.#computing.stop();
  }

  /**
   * Takes a report and waits until the wanted state differs from what it has applied, at most its `waitMs`. null: it is
   * not known yet, or this server stops.
   */
  async poll(report: BalancerReport, hungUp: AbortSignal): Promise<WantedBalancers | null> {
    if (!isDeepStrictEqual(report.networks, this.#networks)) {
      this.#networks = [...report.networks];
      this.#computing.trigger(0);
    }
    this.#events.take(report, (network) => this.#owners.get(network), this.#balancers);
    const notify = () => this.#notifier.notify();
    hungUp.addEventListener("abort", notify);
    // What was computed for other networks says nothing of these.
    const isNews = () => this.#computedFor === this.#networks && report.applied !== this.#version;
    await this.#notifier.until(() => hungUp.aborted || isNews(), report.waitMs);
    hungUp.removeEventListener("abort", notify);
    if (this.#notifier.closed || this.#computedFor === null) return null;
    return { version: this.#version, node: this.#options.node, balancers: this.#balancers };
  }

  get #version(): string {
    return `${this.#run}.${this.#number}`;
  }

  async #compute(): Promise<void> {
    const networks = this.#networks;
    const found = await Promise.all(networks.map((network) => this.#wantedOf(network)));
    const balancers = found.filter((one) => one !== null);
    if (!isDeepStrictEqual(balancers, this.#balancers)) {
      this.#balancers = balancers;
      this.#number += 1;
    }
    this.#computedFor = networks;
    this.#notifier.notify();
    if (balancers.some(({ backends }) => backends === null)) this.#computing.trigger(AGAIN_MS);
  }

  async #wantedOf(network: string): Promise<WantedBalancer | null> {
    try {
      const found = await this.#options.source.backendsOnNetwork(network);
      if (found === null) {
        this.#owners.delete(network);
        return null;
      }
      this.#owners.set(network, found.by);
      return { network, backends: found.endpoints };
    } catch (error) {
      if (!(error instanceof ApiAway))
        this.#options.log.warn({ network, err: error as Error }, "the backends of a network cannot be told");
      return { network, backends: null };
    }
  }
}
