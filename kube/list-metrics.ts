import { Counter, type MetricsRegistry } from "../platform/prometheus.ts";
import type { ListedPage } from "./kube-api.ts";

const LABELS = ["resource", "selector", "source"] as const;
const OPTIONS = { labelNames: LABELS, registers: [] };

/** What a process lists in the Kubernetes API. Watches are not in it. */
export class ListMetrics {
  readonly #requests = new Counter({
    name: "holdfast_api_list_requests_total",
    help: "Requests for a page of a list of the Kubernetes API, by resource, kind of selector (none, label, field) and source: quorum is the newest state, cache one of a known version, stream a WatchList",
    ...OPTIONS,
  });
  readonly #objects = new Counter({
    name: "holdfast_api_list_objects_total",
    help: "Objects that arrived in answers to these requests",
    ...OPTIONS,
  });
  readonly #bytes = new Counter({
    name: "holdfast_api_list_bytes_total",
    help: "Bytes of the bodies of answers to these requests, as they came over the connection: JSON that is not compressed",
    ...OPTIONS,
  });

  observe({ resource, selector, source, objects, bytes }: ListedPage): void {
    const labels = { resource, selector, source };
    this.#requests.inc(labels);
    this.#objects.inc(labels, objects);
    this.#bytes.inc(labels, bytes);
  }

  addTo(registry: MetricsRegistry): void {
    for (const metric of [this.#requests, this.#objects, this.#bytes]) registry.registerMetric(metric);
  }
}
