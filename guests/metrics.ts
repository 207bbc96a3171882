import type { Registry } from "../platform/prometheus.ts";
import type { Clock } from "../platform/time.ts";
import { ask, parseShowStat } from "./haproxy/command-socket.ts";

export interface NetMetricSources {
  /** Admitted ports by driver. */
  served(): ReadonlyMap<string, number>;
  /** Wanted ports that are not served. */
  failed(): readonly { readonly kind: "final" | "pending" }[];
  connected(): boolean;
  /** Networks of OVN-Kubernetes with a balancer; null: there is no northbound database to write to. */
  balancers(): { readonly programmed: number; readonly failed: number } | null;
  /** Socket of haproxy that knows its counters. */
  readonly statsSocket: string;
}

type Counts = Map<string, number>;

/** Everything `GET /metrics` of metadata-net shows. */
export class NetMetrics {
  readonly #sources: NetMetricSources;
  readonly #reloads: Counts = new Map();
  readonly #repairs: Counts = new Map();
  readonly #requests: Counts = new Map();
  #refused = 0;
  /** Made when somebody asks: 5 MB that a node whose metrics nobody reads does without. */
  #registry: Promise<Registry> | null = null;
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
    const { textOf } = await import("../platform/prometheus.ts");
    return textOf(registry, clock);
  }

  async #makeRegistry(): Promise<Registry> {
    const { Counter, collectDefaultMetrics, Gauge, Registry } = await import("../platform/prometheus.ts");
    const sources = this.#sources;
    const registry = new Registry();
    const registers = [registry];
    collectDefaultMetrics({ register: registry });
    new Gauge({
      name: "holdfast_metadata_net_ports",
      help: "Ports of guests with metadata on this node, by the driver that takes their frames",
      labelNames: ["driver"],
      registers,
      collect() {
        for (const [driver, count] of sources.served()) this.set({ driver }, count);
      },
    });
    new Gauge({
      name: "holdfast_metadata_net_lost_ports",
      help: "Guests without metadata: pending ones are tried again, final ones have no host-side link",
      labelNames: ["kind"],
      registers,
      collect() {
        for (const kind of ["pending", "final"] as const)
          this.set({ kind }, sources.failed().filter((one) => one.kind === kind).length);
      },
    });
    new Gauge({
      name: "holdfast_metadata_net_connected",
      help: "1 when the daemon is heard",
      registers,
      collect() {
        this.set(sources.connected() ? 1 : 0);
      },
    });
    new Gauge({
      name: "holdfast_metadata_net_balancers",
      help: "Networks of OVN-Kubernetes that refer to a Service, by their balancer on this node: programmed, failed",
      labelNames: ["state"],
      registers,
      collect() {
        for (const [state, count] of Object.entries(sources.balancers() ?? {})) this.set({ state }, count);
      },
    });
    const counter = (name: string, help: string, label: string, counts: Counts) =>
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset();
          for (const [value, count] of counts) this.inc({ [label]: value }, count);
        },
      });
    counter(
      "holdfast_metadata_net_reloads_total",
      "Starts and reloads of haproxy: ok, failed, or refused by its check",
      "outcome",
      this.#reloads,
    );
    counter(
      "holdfast_metadata_net_repairs_total",
      "What somebody else had changed and is as it was: listener, balancer, or a driver's rules",
      "what",
      this.#repairs,
    );
    counter(
      "holdfast_metadata_net_requests_total",
      "Requests of guests by class of status, as haproxy counted them",
      "status",
      this.#requests,
    );
    const refused = () => this.#refused;
    new Counter({
      name: "holdfast_metadata_net_refused_connections_total",
      help: "Connections refused because the guest had too many",
      registers,
      collect() {
        this.reset();
        this.inc(refused());
      },
    });
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
