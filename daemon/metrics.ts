import type { NetworkView } from "../allocations/records.ts";
import { addPortMetrics } from "../guests/ports/metrics.ts";
import type { PortService } from "../guests/ports/port-service.ts";
import type { RefusalCode } from "../ipam/refusals.ts";
import type { RequestObservers } from "../kube/kube-api.ts";
import { ListMetrics } from "../kube/list-metrics.ts";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry, textOf } from "../platform/prometheus.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import type { Clock } from "../platform/time.ts";
import { StorageFault } from "../store/allocations.ts";
import type { Networks } from "../store/node-store.ts";
import { ADDRESS_STATES, seriesOf } from "./network-series.ts";

/** Buckets around the time of an ADD: well below a millisecond in the daemon, up to the deadline if it has to wait. */
const SECONDS_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10];

export interface MetricSources {
  readonly store: Pick<Networks, "networks">;
  notReady(): string | null;
  spool(): { readonly waiting: number; readonly bad: number };
  waiting(): number;
  /** Releases that the API server has not been told yet. */
  owed(): number;
  /** Attachments whose address now belongs to another owner. */
  lost(): number;
  /** null: no Kubernetes behind this daemon. */
  readonly requests: ApiRequestMetrics | null;
  readonly ports: PortService;
}

/** Requests to the API server, counted before the registry that exports them exists. */
export class ApiRequestMetrics {
  readonly lists = new ListMetrics();
  readonly seconds = new Histogram({
    name: "holdfast_api_request_duration_seconds",
    help: "Time of single requests to the Kubernetes API, by verb and answer; away is no answer",
    labelNames: ["verb", "status"],
    buckets: SECONDS_BUCKETS,
    registers: [],
  });

  readonly observers: RequestObservers = {
    onRequest: (verb, status, ms) => this.seconds.observe({ verb, status: String(status) }, ms / 1_000),
    onList: (page) => this.lists.observe(page),
  };
}

/** Everything in `GET /metrics`. Gauges are computed from the store at each request. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #duration: Histogram<"verb" | "outcome">;
  readonly #refusals: Counter<"verb" | "code">;
  readonly #size: Gauge<"network" | "subnets">;
  readonly #addresses: Gauge<"network" | "subnets" | "state">;
  readonly #attachments: Gauge<"network">;
  readonly #store: Pick<Networks, "networks">;
  readonly #texts = new SingleFlight<{ contentType: string; body: string }>();

  constructor(sources: MetricSources) {
    const registers = [this.#registry];
    this.#store = sources.store;
    this.#duration = new Histogram({
      name: "holdfast_cni_request_duration_seconds",
      help: "Time from a CNI request's arrival in the daemon to its answer",
      labelNames: ["verb", "outcome"],
      buckets: SECONDS_BUCKETS,
      registers,
    });
    this.#refusals = new Counter({
      name: "holdfast_cni_refusals_total",
      help: "CNI requests answered with an error, by the refusal's code",
      labelNames: ["verb", "code"],
      registers,
    });
    this.#size = new Gauge({
      name: "holdfast_network_size_addresses",
      help: "Addresses of a network's subnet; the sum of its holdfast_network_addresses",
      labelNames: ["network", "subnets"],
      registers,
    });
    this.#addresses = new Gauge({
      name: "holdfast_network_addresses",
      help: "Addresses of a network's subnet by state: allocated, retained, cooling, free, excluded",
      labelNames: ["network", "subnets", "state"],
      registers,
    });
    this.#attachments = new Gauge({
      name: "holdfast_network_attachments",
      help: "Container interfaces attached to a network on this node",
      labelNames: ["network"],
      registers,
    });
    new Gauge({
      name: "holdfast_ready",
      help: "1 when a new holder gets an address",
      registers,
      collect() {
        this.set(sources.notReady() === null ? 1 : 0);
      },
    });
    new Gauge({
      name: "holdfast_spool_files",
      help: "DELs in the spool directory: waiting to be delivered, or not understood",
      labelNames: ["state"],
      registers,
      collect() {
        const { waiting, bad } = sources.spool();
        this.set({ state: "waiting" }, waiting);
        this.set({ state: "bad" }, bad);
      },
    });
    if (sources.requests) {
      this.#registry.registerMetric(sources.requests.seconds);
      sources.requests.lists.addTo(this.#registry);
      new Gauge({
        name: "holdfast_outbox_entries",
        help: "Releases of this node that the Kubernetes API has not been told yet",
        registers,
        collect() {
          this.set(sources.owed());
        },
      });
      new Gauge({
        name: "holdfast_attachments_lost",
        help: "Attachments of this node with an address that belongs to somebody else by now",
        registers,
        collect() {
          this.set(sources.lost());
        },
      });
    }
    addPortMetrics(this.#registry, sources.ports);
    new Gauge({
      name: "holdfast_waiting_requests",
      help: "ADDs that wait for their claim to be created",
      registers,
      collect() {
        this.set(sources.waiting());
      },
    });
  }

  /** Shows the process beside the daemon. Its garbage collections are watched from then on until it ends. */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** Networks are read once for all gauges, so that one answer is consistent. */
  async #refreshNetworks(): Promise<void> {
    const { attachments, ranges } = seriesOf(await networksOf(this.#store));
    for (const gauge of [this.#size, this.#addresses, this.#attachments]) gauge.reset();
    for (const [network, count] of attachments) this.#attachments.set({ network }, count);
    for (const { network, subnets, size, states } of ranges) {
      this.#size.set({ network, subnets }, size);
      for (const state of ADDRESS_STATES) this.#addresses.set({ network, subnets, state }, states[state]);
    }
  }

  cniDone(verb: string, tookMs: number): void {
    this.#duration.observe({ verb, outcome: "ok" }, tookMs / 1_000);
  }

  cniRefused(verb: string, code: RefusalCode, tookMs: number): void {
    this.#refusals.inc({ verb, code });
    this.#duration.observe({ verb, outcome: "refused" }, tookMs / 1_000);
  }

  /** For one listener after the other: gauges of two answers would mix. */
  text(clock: Clock): Promise<{ contentType: string; body: string }> {
    return this.#texts.next(async () => {
      await this.#refreshNetworks();
      return textOf(this.#registry, clock);
    });
  }
}

/** Metrics are served while the database is away, without those of networks. */
async function networksOf(store: Pick<Networks, "networks">): Promise<NetworkView[]> {
  try {
    // Of a network of the cluster that this node does not use, it knows no counts.
    return (await store.networks()).filter(({ observed, attachments }) => observed !== null || attachments > 0);
  } catch (error) {
    if (error instanceof StorageFault) return [];
    throw error;
  }
}
