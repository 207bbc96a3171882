import { Counter, Gauge, type Registry } from "prom-client";
import type { ListenerDesk } from "./desk.ts";

export function addListenerMetrics(registry: Registry, desk: ListenerDesk): void {
  const registers = [registry];
  new Gauge({
    name: "holdfast_metadata_listeners",
    help: "Metadata listeners of this node's networks: wanted, and reported as up or failed by holdfast metadata-net",
    labelNames: ["state"],
    registers,
    collect() {
      for (const [state, count] of Object.entries(desk.counts)) this.set({ state }, count);
    },
  });
  new Counter({
    name: "holdfast_metadata_waits_total",
    help: "ADDs on networks with metadata, by what came of their wait for the listener: up, late or failed",
    labelNames: ["outcome"],
    registers,
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(desk.reports.waits)) this.inc({ outcome }, count);
    },
  });
}
