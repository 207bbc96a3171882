import { ListMetrics } from "../kube/list-metrics.ts";
import { Counter, collectDefaultMetrics, Gauge, Registry, textOf } from "../platform/prometheus.ts";
import type { Clock } from "../platform/time.ts";
import type { AddressParts } from "./address-parts.ts";
import type { MachineParts } from "./machine-parts.ts";
import type { NetworkParts } from "./network-parts.ts";
import type { Watched } from "./watched.ts";

/** What the metrics of a controller are read from. */
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
  readonly #registry = new Registry();
  readonly #carriedOut: Counter<"verdict" | "why">;
  readonly #putBack: Counter;
  readonly #refused: Counter;
  readonly #requests: Counter<"verb" | "status">;

  constructor({ watched, addresses, machines, networks, leads }: MeasuredParts) {
    const registers = [this.#registry];
    const { sweeper, adoption } = addresses;
    const { cluster, data } = machines;
    new Gauge({
      name: "holdfast_cluster_network_size_addresses",
      help: "Addresses of a network; the sum of its holdfast_cluster_network_addresses",
      labelNames: ["network"],
      registers,
      collect() {
        this.reset();
        for (const [network, { counts }] of networks.status.counts) this.set({ network }, Number(counts.size));
      },
    });
    new Gauge({
      name: "holdfast_cluster_network_addresses",
      help: "Addresses of a network by state: allocated, retained, cooling, free, excluded",
      labelNames: ["network", "state"],
      registers,
      collect() {
        this.reset();
        for (const [network, { counts }] of networks.status.counts) {
          const { size, allocated, retained, cooling, free } = counts;
          const excluded = size - allocated - retained - cooling - free;
          const states = { allocated, retained, cooling, free, excluded };
          for (const [state, count] of Object.entries(states)) this.set({ network, state }, Number(count));
        }
      },
    });
    new Gauge({
      name: "holdfast_cluster_network_idle_addresses",
      help: "Allocated addresses of claims that nothing is attached to: VMs that are stopped",
      labelNames: ["network"],
      registers,
      collect() {
        this.reset();
        for (const [network, { counts }] of networks.status.counts) this.set({ network }, counts.idleCount);
      },
    });
    new Gauge({
      name: "holdfast_controller_allocations",
      help: "Allocations by the last verdict about each",
      labelNames: ["verdict", "why"],
      registers,
      collect() {
        this.reset();
        for (const [word, count] of leads() ? sweeper.counts : []) {
          const [verdict = "", why = ""] = word.split(" ");
          this.set({ verdict, why }, count);
        }
      },
    });
    new Gauge({
      name: "holdfast_controller_overdue_seconds",
      help: "How much longer than its grace the oldest reason to free or delete something has waited, seconds; 0: none",
      registers,
      collect() {
        this.set(sweeper.overdueSeconds);
      },
    });
    new Gauge({
      name: "holdfast_controller_claim_conflicts",
      help: "Claims that list an address which is somebody else's",
      registers,
      collect() {
        this.set(adoption.conflictCount);
      },
    });
    new Gauge({
      name: "holdfast_controller_machine_claims",
      help: "Claims of machines (IPAddressClaims on AddressPools) by what became of them",
      labelNames: ["state"],
      registers,
      collect() {
        this.reset();
        for (const [state, count] of leads() ? cluster.claimCounts : []) this.set({ state }, count);
      },
    });
    new Gauge({
      name: "holdfast_controller_leader",
      help: "1 when this controller works, 0 when another one does",
      registers,
      collect() {
        this.set(leads() ? 1 : 0);
      },
    });
    new Gauge({
      name: "holdfast_controller_resource_synced",
      help: "1 when the objects of a resource are known and the API server can be heard",
      labelNames: ["resource"],
      registers,
      collect() {
        const resources = { ...watched.synced, ...cluster.caches.synced, ...data?.synced };
        for (const [resource, synced] of Object.entries(resources)) this.set({ resource }, synced ? 1 : 0);
      },
    });
    new Gauge({
      name: "holdfast_controller_machine_data",
      help: "Metal3Data objects by state: ready, waiting, failed",
      labelNames: ["state"],
      registers,
      collect() {
        this.reset();
        for (const [state, count] of Object.entries(data?.counts.objects ?? {})) this.set({ state }, count);
      },
    });
    new Gauge({
      name: "holdfast_controller_machine_data_refused",
      help: "1 when machine data is to be served and CAPM3 owns its kinds, so that nothing is written",
      registers,
      collect() {
        this.set(data?.counts.isRefused ? 1 : 0);
      },
    });
    new Gauge({
      name: "holdfast_controller_machine_data_secrets_created",
      help: "Secrets of machines that this process created",
      registers,
      collect() {
        this.set(data?.counts.secrets ?? 0);
      },
    });
    this.#carriedOut = new Counter({
      name: "holdfast_controller_carried_out_total",
      help: "Verdicts carried out: releases, prunes, deletions, repairs",
      labelNames: ["verdict", "why"],
      registers,
    });
    this.#putBack = new Counter({
      name: "holdfast_controller_put_back_total",
      help: "Allocations that were in use, were deleted by force, and were created again",
      registers,
    });
    this.#refused = new Counter({
      name: "holdfast_controller_pod_addresses_refused_total",
      help: "Addresses that pods' annotations report beyond what their interfaces on a network can have, as often as met",
      registers,
    });
    this.#requests = new Counter({
      name: "holdfast_controller_api_requests_total",
      help: "Requests to the API server, by verb and HTTP status; status away: no answer came",
      labelNames: ["verb", "status"],
      registers,
    });
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
    return textOf(this.#registry, clock);
  }
}
