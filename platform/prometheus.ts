import type { Registry } from "@prometheus-io/client";
import { type Clock, nextTurn } from "./time.ts";

// The Prometheus client behind one name: nothing else imports the package, which has moved before.
export { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "@prometheus-io/client";

/** As `registry.metrics()`, a metric in each turn of the event loop: those of the process alone take milliseconds. */
export async function textOf(registry: Registry, clock: Clock): Promise<{ contentType: string; body: string }> {
  const texts: string[] = [];
  for (const { name } of registry.getMetricsAsArray()) {
    texts.push(await registry.getSingleMetricAsString(name));
    await nextTurn(clock);
  }
  return { contentType: registry.contentType, body: `${texts.join("\n\n")}\n` };
}
