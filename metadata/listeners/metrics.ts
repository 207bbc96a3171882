import { Counter, Gauge, type Registry } from "prom-client";
import type { ListenerService } from "./listener-service.ts";

export function addListenerMetrics(registry: Registry, service: ListenerService): void {
  const registers = [registry];
  new Gauge({
    name: "holdfast_metadata_listeners",
    help: "Metadata listeners of this node's networks: wanted, and reported as up or failed by holdfast metadata-net",
    labelNames: ["state"],
    registers,
    collect() {
      for (const [state, count] of Object.entries(service.counts)) this.set({ state }, count);
    },
  });
  new Counter({
    name: "holdfast_metadata_waits_total",
    help: "ADDs on networks with metadata, by what came of their wait for the listener: up, late or failed",
    labelNames: ["outcome"],
    registers,
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(service.reports.waits)) this.inc({ outcome }, count);
    },
  });
}
