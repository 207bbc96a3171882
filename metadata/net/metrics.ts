import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { ListenerState } from "../listeners/wire.ts";
import { ask } from "./haproxy/command-socket.ts";
import { parseShowStat } from "./haproxy/haproxy-stat.ts";

export interface NetMetricSources {
  states(): readonly ListenerState[];
  connected(): boolean;
  lostPorts(): number;
  /** Socket of haproxy that knows its counters. */
  readonly statsSocket: string;
}

/** Everything `GET /metrics` of metadata-net shows. */
export class NetMetrics {
  readonly #registry = new Registry();
  readonly #sources: NetMetricSources;
  readonly #reloads: Counter<"outcome">;
  readonly #repairs: Counter<"what">;
  readonly #requests: Counter<"network" | "status">;
  readonly #refused: Counter<"network">;
  /** haproxy's counters as they were last seen: they begin anew with each reload. */
  #seen = new Map<string, number>();

  constructor(sources: NetMetricSources) {
    this.#sources = sources;
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    new Gauge({
      name: "holdfast_metadata_net_listeners",
      help: "Networks with metadata on this node by state: up, failed",
      labelNames: ["state"],
      registers,
      collect() {
        for (const state of ["up", "failed"] as const)
          this.set({ state }, sources.states().filter((one) => one.state === state).length);
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
      name: "holdfast_metadata_net_lost_ports",
      help: "Attachments whose port of the bridge could not be found: they get no metadata",
      registers,
      collect() {
        this.set(sources.lostPorts());
      },
    });
    this.#reloads = new Counter({
      name: "holdfast_metadata_net_reloads_total",
      help: "Starts and reloads of haproxy: ok, failed, or refused by its check",
      labelNames: ["outcome"],
      registers,
    });
    this.#repairs = new Counter({
      name: "holdfast_metadata_net_repairs_total",
      help: "What somebody else had changed and is there again: link, firewall",
      labelNames: ["what"],
      registers,
    });
    this.#requests = new Counter({
      name: "holdfast_metadata_net_requests_total",
      help: "Requests of guests by class of status, as haproxy counted them",
      labelNames: ["network", "status"],
      registers,
    });
    this.#refused = new Counter({
      name: "holdfast_metadata_net_refused_connections_total",
      help: "Connections refused because the guest had too many",
      labelNames: ["network"],
      registers,
    });
  }

  reloaded(outcome: string): void {
    this.#reloads.inc({ outcome });
  }

  repaired(what: string): void {
    this.#repairs.inc({ what });
  }

  async text(): Promise<{ contentType: string; body: string }> {
    await this.#readHaproxy();
    return { contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  async #readHaproxy(): Promise<void> {
    let answer: string;
    try {
      answer = await ask(this.#sources.statsSocket, "show stat -1 1 -1");
    } catch {
      // Nothing is wanted, or it is being started.
      return;
    }
    for (const { network, byStatus, refusedConnections } of parseShowStat(answer)) {
      for (const [status, count] of Object.entries(byStatus))
        this.#requests.inc({ network, status }, this.#since(`${network} ${status}`, count));
      this.#refused.inc({ network }, this.#since(`${network} refused`, refusedConnections));
    }
  }

  #since(key: string, count: number): number {
    const before = this.#seen.get(key) ?? 0;
    this.#seen.set(key, count);
    return count >= before ? count - before : count;
  }
}
