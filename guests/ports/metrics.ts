import { Counter, Gauge, type Registry } from "../../platform/prometheus.ts";
import type { PortService } from "./port-service.ts";

export function addPortMetrics(registry: Registry, service: PortService): void {
  const registers = [registry];
  new Gauge({
    name: "holdfast_metadata_ports",
    help: "Interfaces of this node on networks with metadata: wanted, and reported as up or failed by holdfast metadata-net",
    labelNames: ["state"],
    registers,
    collect() {
      for (const [state, count] of Object.entries(service.counts)) this.set({ state }, count);
    },
  });
  new Counter({
    name: "holdfast_metadata_waits_total",
    help: "ADDs on networks with metadata, by what came of their wait for their own port: up, late or failed",
    labelNames: ["outcome"],
    registers,
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(service.waits)) this.inc({ outcome }, count);
    },
  });
}
