import type { MetricsRegistry } from "../platform/prometheus.ts";
import type { Clock } from "../platform/time.ts";
import { ask, parseShowStat } from "./haproxy/command-socket.ts";

export interface NetMetricSources {
  served(): ReadonlyMap<string, number>;
  failed(): readonly { readonly kind: "final" | "pending" }[];
  connected(): boolean;
  /** Networks of OVN-Kubernetes with a balancer; null: there is no northbound database to write to. */
  balancers(): { readonly programmed: number; readonly failed: number } | null;
  readonly statsSocket: string;
}

type Counts = Map<string, number>;

export class NetMetrics {
  readonly #sources: NetMetricSources;
  readonly #reloads: Counts = new Map();
  readonly #repairs: Counts = new Map();
  readonly #requests: Counts = new Map();
  #refused = 0;
  /** Made when somebody asks: 5 MB that a node whose metrics nobody reads does without. */
  #registry: Promise<MetricsRegistry> | null = null;
  /** haproxy's counters as they were last seen: they begin anew with each reload. */
  #seen = new Map<string, number>();

  constructor(sources: NetMetricSources) {
    this.#sources = sources;
  }

  reloaded(outcome: string): void {
    add(this.#reloads, outcome, 1);
  }

  repaired(what: string): void {
    add(this.#repairs, what, 1);
  }

  async text(clock: Clock): Promise<{ contentType: string; body: string }> {
    this.#registry ??= this.#makeRegistry();
    const registry = await this.#registry;
    await this.#readHaproxy();
    return registry.text(clock);
  }

  async #makeRegistry(): Promise<MetricsRegistry> {
    const { collectDefaultMetrics, MetricsRegistry } = await import("../platform/prometheus.ts");
    const sources = this.#sources;
    const registry = new MetricsRegistry();
    collectDefaultMetrics({ register: registry });
    // A driver that this process does not run has ports that an earlier one left to it.
    const served = new Map<string, number>();
    registry.gauge(
      "holdfast_metadata_net_ports{driver}",
      "Ports of guests with metadata on this node, by the driver that takes their frames",
      () => {
        for (const [driver, count] of sources.served()) served.set(driver, count);
        return served;
      },
    );
    registry.gauge(
      "holdfast_metadata_net_lost_ports{kind}",
      "Guests without metadata: pending ones are tried again, final ones have no host-side link",
      () => ["pending", "final"].map((kind) => [kind, sources.failed().filter((one) => one.kind === kind).length]),
    );
    registry.gauge("holdfast_metadata_net_connected", "1 when the daemon is heard", () =>
      sources.connected() ? 1 : 0,
    );
    registry.gauge(
      "holdfast_metadata_net_balancers{state}",
      "Networks of OVN-Kubernetes that refer to a Service, by their balancer on this node: programmed, failed",
      () => Object.entries(sources.balancers() ?? {}),
    );
    registry.counter(
      "holdfast_metadata_net_reloads_total{outcome}",
      "Starts and reloads of haproxy: ok, failed, or refused by its check",
      () => this.#reloads,
    );
    registry.counter(
      "holdfast_metadata_net_repairs_total{what}",
      "What somebody else had changed and is as it was: listener, balancer, or a driver's rules",
      () => this.#repairs,
    );
    registry.counter(
      "holdfast_metadata_net_requests_total{status}",
      "Requests of guests by class of status, as haproxy counted them",
      () => this.#requests,
    );
    registry.counter(
      "holdfast_metadata_net_refused_connections_total",
      "Connections refused because the guest had too many",
      () => this.#refused,
    );
    return registry;
  }

  async #readHaproxy(): Promise<void> {
    let answer: string;
    try {
      answer = await ask(this.#sources.statsSocket, "show stat -1 1 -1");
    } catch {
      // Nothing is wanted, or it is being started.
      return;
    }
    const counts = parseShowStat(answer);
    if (counts === null) return;
    for (const [status, count] of Object.entries(counts.byStatus))
      add(this.#requests, status, this.#since(status, count));
    this.#refused += this.#since("refused", counts.refusedConnections);
  }

  #since(key: string, count: number): number {
    const before = this.#seen.get(key) ?? 0;
    this.#seen.set(key, count);
    return count >= before ? count - before : count;
  }
}

function add(counts: Counts, value: string, more: number): void {
  counts.set(value, (counts.get(value) ?? 0) + more);
}
