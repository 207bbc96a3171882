import type { NetworkView } from "../allocations/records.ts";
import { addPortMetrics } from "../guests/ports/metrics.ts";
import type { PortService } from "../guests/ports/port-service.ts";
import type { RefusalCode } from "../ipam/refusals.ts";
import type { RequestObservers } from "../kube/kube-api.ts";
import { ListMetrics } from "../kube/list-metrics.ts";
import { type Counter, collectDefaultMetrics, Histogram, MetricsRegistry } from "../platform/prometheus.ts";
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
  pending(): number;
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
  readonly #registry = new MetricsRegistry();
  readonly #duration: Histogram<"verb" | "outcome">;
  readonly #refusals: Counter<"verb" | "code">;
  readonly #store: Pick<Networks, "networks">;
  /** Read once for all gauges, so that one answer is consistent. */
  #networks = seriesOf([]);
  readonly #texts = new SingleFlight<{ contentType: string; body: string }>();

  constructor(sources: MetricSources) {
    const registry = this.#registry;
    this.#store = sources.store;
    this.#duration = new Histogram({
      name: "holdfast_cni_request_duration_seconds",
      help: "Time from a CNI request's arrival in the daemon to its answer",
      labelNames: ["verb", "outcome"],
      buckets: SECONDS_BUCKETS,
      registers: [registry],
    });
    this.#refusals = registry.counter(
      "holdfast_cni_refusals_total{verb,code}",
      "CNI requests answered with an error, by the refusal's code",
    );
    registry.gauge(
      "holdfast_network_size_addresses{network,subnets}",
      "Addresses of a network's subnet; the sum of its holdfast_network_addresses",
      () => this.#networks.ranges.map(({ network, subnets, size }) => [network, subnets, size]),
    );
    registry.gauge(
      "holdfast_network_addresses{network,subnets,state}",
      "Addresses of a network's subnet by state: allocated, retained, cooling, free, excluded",
      () =>
        this.#networks.ranges.flatMap(({ network, subnets, states }) =>
          ADDRESS_STATES.map((state) => [network, subnets, state, states[state]]),
        ),
    );
    registry.gauge(
      "holdfast_network_attachments{network}",
      "Container interfaces attached to a network on this node",
      () => this.#networks.attachments,
    );
    registry.gauge("holdfast_ready", "1 when a new holder gets an address", () =>
      sources.notReady() === null ? 1 : 0,
    );
    registry.gauge(
      "holdfast_spool_files{state}",
      "DELs in the spool directory: waiting to be delivered, or not understood",
      () => {
        const { waiting, bad } = sources.spool();
        return [
          ["waiting", waiting],
          ["bad", bad],
        ];
      },
    );
    if (sources.requests) {
      registry.registerMetric(sources.requests.seconds);
      sources.requests.lists.addTo(registry);
      registry.gauge(
        "holdfast_outbox_entries",
        "Releases of this node that have not been sent to the Kubernetes API yet",
        () => sources.pending(),
      );
      registry.gauge(
        "holdfast_attachments_lost",
        "Attachments of this node with an address that belongs to somebody else by now",
        () => sources.lost(),
      );
    }
    addPortMetrics(registry, sources.ports);
    registry.gauge("holdfast_waiting_requests", "ADDs that wait for their claim to be created", () =>
      sources.waiting(),
    );
  }

  /** Shows the process beside the daemon. Its garbage collections are watched from then on until it ends. */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
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
      this.#networks = seriesOf(await networksOf(this.#store));
      return this.#registry.text(clock);
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
