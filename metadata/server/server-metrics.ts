import type { IdentityOutcome } from "../../identity/client.ts";
import { ListMetrics } from "../../kube/list-metrics.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import { type Counter, collectDefaultMetrics, Histogram, MetricsRegistry } from "../../platform/prometheus.ts";
import type { Clock } from "../../platform/time.ts";
import { readTarget } from "../documents/request-path.ts";
import type { ProxyOutcome } from "../proxy/proxy.ts";
import type { Backend } from "../tenant/tenant-source.ts";

export type RequestedTree = "openstack" | "ec2" | "nocloud" | "token" | "other" | "proxied";

type OwnTree = Exclude<RequestedTree, "proxied">;

/** Networks shown by name; a node has far fewer, and a time series each is what they cost. */
const NETWORKS_MAX = 1_000;

/** Targets whose tree is remembered: guests ask for the same few dozen. */
const TREES_MAX = 500;
const TREE_CHARS_MAX = 200;

export class ServerMetrics {
  /** Of the Kubernetes API, where there is one. */
  readonly lists = new ListMetrics();
  readonly #registry = new MetricsRegistry();
  readonly #networks = new Set<string>();
  readonly #trees = new BoundedMap<string, OwnTree>(TREES_MAX);
  readonly #requests: Counter<"network" | "tree" | "status">;
  readonly #seconds: Histogram<"tree">;
  readonly #identity: Counter<"outcome">;
  readonly #backend: Counter<"kind" | "outcome">;

  constructor() {
    const registry = this.#registry;
    collectDefaultMetrics({ register: registry });
    this.#requests = registry.counter(
      "holdfast_metadata_requests_total{network,tree,status}",
      "Requests of guests by network, tree (openstack, ec2, nocloud, token, other, proxied) and HTTP status",
    );
    this.#seconds = new Histogram({
      name: "holdfast_metadata_request_seconds",
      help: "From a whole request of a guest to its answer",
      labelNames: ["tree"],
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 60],
      registers: [registry],
    });
    this.#identity = registry.counter(
      "holdfast_metadata_identity_lookups_total{outcome}",
      "Questions who is behind an address, by outcome: found, nobody, ambiguous, away, remembered",
    );
    this.#backend = registry.counter(
      "holdfast_metadata_backend_requests_total{kind,outcome}",
      "Forwarded requests by kind of backend and outcome: passed, refused, no-endpoint, unreachable, late, broken, gone",
    );
    this.lists.addTo(registry);
  }

  answered(request: { network: string | null; tree: RequestedTree; status: number; ms: number }): void {
    const { network, tree, status, ms } = request;
    this.#requests.inc({ network: this.#networkLabel(network), tree, status: String(status) });
    this.#seconds.observe({ tree }, ms / 1_000);
  }

  treeOf(target: string): OwnTree {
    const known = this.#trees.get(target);
    if (known !== undefined) return known;
    const tree = findTree(target);
    if (target.length <= TREE_CHARS_MAX) this.#trees.set(target, tree);
    return tree;
  }

  identityAnswered(outcome: IdentityOutcome): void {
    this.#identity.inc({ outcome });
  }

  forwarded(kind: Backend["kind"], outcome: ProxyOutcome): void {
    this.#backend.inc({ kind, outcome });
  }

  text(clock: Clock): Promise<{ contentType: string; body: string }> {
    return this.#registry.text(clock);
  }

  #networkLabel(network: string | null): string {
    if (network === null) return "";
    if (!this.#networks.has(network)) {
      if (this.#networks.size >= NETWORKS_MAX) return "other";
      this.#networks.add(network);
    }
    return network;
  }
}

function findTree(target: string): OwnTree {
  const read = readTarget(target);
  if (read.kind === "bad") return "other";
  const [first] = read.segments;
  if (read.segments.join("/") === "latest/api/token") return "token";
  if (first === "openstack" || first === "nocloud") return first;
  return first === undefined || first === "ec2" || first === "latest" || /^\d/.test(first) ? "ec2" : "other";
}
