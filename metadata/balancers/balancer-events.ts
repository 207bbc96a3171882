import type { BalancerProblem, BalancerReport, WantedBalancer } from "../../guests/ovn/balancers-wire.ts";
import type { EventObject, EventWriter } from "../../kube/events.ts";

const REASONS: Readonly<Record<BalancerProblem["kind"], string>> = {
  failed: "MetadataBalancerFailed",
  "no-router": "MetadataBalancerNoRouter",
};

/** Tells the owner of a network, by events, what became of its balancer on this node. */
export class BalancerEvents {
  readonly #events: Pick<EventWriter, "warn" | "inform">;
  readonly #node: string;
  /** Problems as they were sent last, by network. */
  #sent = new Map<string, string>();

  constructor(events: Pick<EventWriter, "warn" | "inform">, node: string) {
    this.#events = events;
    this.#node = node;
  }

  /** `owner`: the (Cluster)UserDefinedNetwork of a network; undefined: it is not known. */
  take(
    { problems, written }: BalancerReport,
    owner: (network: string) => EventObject | undefined,
    wanted: readonly WantedBalancer[],
  ): void {
    const sent = new Map<string, string>();
    for (const { network, kind, problem } of problems) {
      const object = owner(network);
      if (object === undefined) continue;
      sent.set(network, problem);
      if (this.#sent.get(network) !== problem)
        this.#events.warn(object, REASONS[kind], `node ${this.#node}: ${problem}`);
    }
    this.#sent = sent;
    for (const network of written) {
      const object = owner(network);
      const { backends = null, ports = [] } = wanted.find((one) => one.network === network) ?? {};
      if (object === undefined || backends === null || sent.has(network)) continue;
      const entries = [{ port: 80, backends }, ...ports].map(
        (one) =>
          `169.254.169.254:${one.port} ${
            one.backends.length === 0
              ? "refuses connections: no endpoint is ready here"
              : `leads to ${one.backends.join(", ")}`
          }`,
      );
      this.#events.inform(object, "MetadataBalancerProgrammed", `node ${this.#node}: ${entries.join("; ")}`);
    }
  }
}
