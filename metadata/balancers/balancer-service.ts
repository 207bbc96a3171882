import type { BalancerReport, WantedBalancer, WantedBalancers } from "../../guests/ovn/balancers-wire.ts";
import type { EventObject, EventWriter } from "../../kube/events.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { FollowedNetworks } from "../relay/followed-networks.ts";
import type { NetworkBackends } from "../tenant/services.ts";
import { BalancerEvents } from "./balancer-events.ts";

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
  readonly #events: BalancerEvents;
  readonly #owners = new Map<string, EventObject>();
  /** With a switch on this node, as metadata-net has it. */
  readonly #networks: FollowedNetworks<WantedBalancer>;

  constructor(options: BalancerServiceOptions) {
    this.#options = options;
    const { clock, source } = options;
    this.#events = new BalancerEvents(options.events, options.node);
    this.#networks = new FollowedNetworks<WantedBalancer>({
      clock,
      watch: (changed) => source.watch(changed),
      wantedOf: (network) => this.#wantedOf(network),
      isUnknown: ({ backends }) => backends === null,
    });
  }

  start(): void {
    this.#networks.start();
  }

  /** Releases all waiters. */
  stop(): Promise<void> {
    return this.#networks.stop();
  }

  /**
   * Takes a report and waits until the wanted state differs from what it has applied, at most its `waitMs`. null: it is
   * not known yet, or this server stops.
   */
  async poll(report: BalancerReport, hungUp: AbortSignal): Promise<WantedBalancers | null> {
    this.#events.take(report, (network) => this.#owners.get(network), this.#networks.wanted);
    const found = await this.#networks.poll(report, hungUp);
    return found && { version: found.version, node: this.#options.node, balancers: found.wanted };
  }

  async #wantedOf(network: string): Promise<WantedBalancer | null> {
    try {
      const found = await this.#options.source.backendsOnNetwork(network);
      if (found === null) {
        this.#owners.delete(network);
        return null;
      }
      this.#owners.set(network, found.by);
      const ports = found.ports.map(({ port, endpoints }) => ({ port, backends: endpoints }));
      return { network, backends: found.endpoints, ports };
    } catch (error) {
      if (!(error instanceof ApiAway))
        this.#options.log.warn({ network, err: error as Error }, "the backends of a network cannot be told");
      return { network, backends: null, ports: [] };
    }
  }
}
