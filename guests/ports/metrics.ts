import type { MetricsRegistry } from "../../platform/prometheus.ts";
import type { PortService } from "./port-service.ts";

export function addPortMetrics(registry: MetricsRegistry, service: PortService): void {
  registry.gauge(
    "holdfast_metadata_ports{state}",
    "Interfaces of this node on networks with metadata: wanted, and reported as up or failed by holdfast metadata-net",
    () => Object.entries(service.counts),
  );
  registry.counter(
    "holdfast_metadata_waits_total{outcome}",
    "ADDs on networks with metadata, by what came of their wait for their own port: up, late or failed",
    () => Object.entries(service.waits),
  );
}
