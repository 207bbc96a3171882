import { ListMetrics } from "../kube/list-metrics.ts";
import { type Counter, collectDefaultMetrics, MetricsRegistry } from "../platform/prometheus.ts";
import type { Clock } from "../platform/time.ts";
import type { AddressParts } from "./address-parts.ts";
import type { MachineParts } from "./machine-parts.ts";
import type { NetworkParts } from "./network-parts.ts";
import type { Watched } from "./watched.ts";

interface MeasuredParts {
  readonly watched: Watched;
  readonly addresses: AddressParts;
  readonly machines: MachineParts;
  readonly networks: NetworkParts;
  leads(): boolean;
}

/** Everything in `GET /metrics` of the controller. Gauges are read from the parts at each request. */
export class ControllerMetrics {
  readonly lists = new ListMetrics();
  readonly #registry = new MetricsRegistry();
  readonly #carriedOut: Counter<"verdict" | "why">;
  readonly #putBack: Counter;
  readonly #refused: Counter;
  readonly #requests: Counter<"verb" | "status">;

  constructor({ watched, addresses, machines, networks, leads }: MeasuredParts) {
    const registry = this.#registry;
    const { sweeper, adoption } = addresses;
    const { cluster, data } = machines;
    registry.gauge(
      "holdfast_cluster_network_size_addresses{network}",
      "Addresses of a network; the sum of its holdfast_cluster_network_addresses",
      () => [...networks.status.counts].map(([network, { counts }]) => [network, Number(counts.size)]),
    );
    registry.gauge(
      "holdfast_cluster_network_addresses{network,state}",
      "Addresses of a network by state: allocated, retained, cooling, free, excluded",
      () =>
        [...networks.status.counts].flatMap(([network, { counts }]) => {
          const { size, allocated, retained, cooling, free } = counts;
          const excluded = size - allocated - retained - cooling - free;
          const states = { allocated, retained, cooling, free, excluded };
          return Object.entries(states).map(([state, count]) => [network, state, Number(count)]);
        }),
    );
    registry.gauge(
      "holdfast_cluster_network_idle_addresses{network}",
      "Allocated addresses of claims that nothing is attached to: VMs that are stopped",
      () => [...networks.status.counts].map(([network, { counts }]) => [network, counts.idleCount]),
    );
    registry.gauge("holdfast_controller_allocations{verdict,why}", "Allocations by the last verdict about each", () =>
      [...(leads() ? sweeper.counts : [])].map(([word, count]) => {
        const [verdict = "", why = ""] = word.split(" ");
        return [verdict, why, count];
      }),
    );
    registry.gauge(
      "holdfast_controller_overdue_seconds",
      "How much longer than its grace the oldest reason to free or delete something has waited, seconds; 0: none",
      () => sweeper.overdueSeconds,
    );
    registry.gauge(
      "holdfast_controller_claim_conflicts",
      "Claims that list an address which is somebody else's",
      () => adoption.conflictCount,
    );
    registry.gauge(
      "holdfast_controller_machine_claims{state}",
      "Claims of machines (IPAddressClaims on AddressPools) by what became of them",
      () => (leads() ? cluster.claimCounts : []),
    );
    registry.gauge("holdfast_controller_leader", "1 when this controller works, 0 when another one does", () =>
      leads() ? 1 : 0,
    );
    // Of a resource that is not served any more, the last is shown.
    const synced: Record<string, boolean> = {};
    registry.gauge(
      "holdfast_controller_resource_synced{resource}",
      "1 when the objects of a resource are known and the API server can be heard",
      () =>
        Object.entries(Object.assign(synced, watched.synced, cluster.caches.synced, data?.synced)).map(
          ([resource, is]) => [resource, is ? 1 : 0],
        ),
    );
    registry.gauge(
      "holdfast_controller_machine_data{state}",
      "Metal3Data objects by state: ready, waiting, failed",
      () => Object.entries(data?.counts.objects ?? {}),
    );
    registry.gauge(
      "holdfast_controller_machine_data_refused",
      "1 when machine data is to be served and CAPM3 owns its kinds, so that nothing is written",
      () => (data?.counts.isRefused ? 1 : 0),
    );
    registry.gauge(
      "holdfast_controller_machine_data_secrets_created",
      "Secrets of machines that this process created",
      () => data?.counts.secrets ?? 0,
    );
    this.#carriedOut = registry.counter(
      "holdfast_controller_carried_out_total{verdict,why}",
      "Verdicts carried out: releases, prunes, deletions, repairs",
    );
    this.#putBack = registry.counter(
      "holdfast_controller_put_back_total",
      "Allocations that were in use, were deleted by force, and were created again",
    );
    this.#refused = registry.counter(
      "holdfast_controller_pod_addresses_refused_total",
      "Addresses that pods' annotations report beyond what their interfaces on a network can have, as often as met",
    );
    this.#requests = registry.counter(
      "holdfast_controller_api_requests_total{verb,status}",
      "Requests to the API server, by verb and HTTP status; status away: no answer came",
    );
    this.lists.addTo(this.#registry);
  }

  /** Shows the process beside the controller. Its garbage collections are watched from then on until it ends. */
  addProcess(): void {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** Addresses that an import, or a pass over pods, did not record. */
  refused(count: number): void {
    this.#refused.inc(count);
  }

  carriedOut(verdict: string, why: string): void {
    this.#carriedOut.inc({ verdict, why });
  }

  putBack(): void {
    this.#putBack.inc();
  }

  requested(verb: string, status: number | "away"): void {
    this.#requests.inc({ verb, status: String(status) });
  }

  text(clock: Clock): Promise<{ contentType: string; body: string }> {
    return this.#registry.text(clock);
  }
}
