import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { IPNetwork } from "../kube/objects.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import type { DefinitionCatalog } from "./definition-catalog.ts";
import { nodeDefinitionsOf, subnetsOf } from "./import-sources.ts";
import type { NetworkOwner } from "./network-owner.ts";
import { type RecordOwnerOptions, recordOwner } from "./record-owner.ts";

/** How long, ms, an IPNetwork is cached: what an administrator changes takes effect after that. */
const BELIEVED_MS = 5_000;

/**
 * The owners of the networks that this node uses, and what is reserved on their IPNetworks: read when an ADD needs
 * them, the owner recorded if there is none yet, and passed to the catalog. A watch would deliver every change of every
 * network's counts to every node.
 */
export class NetworkOwners {
  readonly #api: KubeApi;
  readonly #catalog: DefinitionCatalog;
  readonly #log: RecordOwnerOptions["log"];
  readonly #seen: (network: string, object: IPNetwork | null) => void;
  readonly #readMs = new Map<string, number>();
  /** Subnets that the IPNetwork lists as the nodes', by network; those of one configuration are one string. */
  readonly #nodes = new Map<string, readonly string[]>();
  readonly #reading = new SingleFlight<NetworkOwner | null>();

  /** `seen` is called with every IPNetwork that is read. */
  constructor(parts: {
    readonly api: KubeApi;
    readonly catalog: DefinitionCatalog;
    readonly log: RecordOwnerOptions["log"];
    readonly seen: (network: string, object: IPNetwork | null) => void;
  }) {
    this.#api = parts.api;
    this.#catalog = parts.catalog;
    this.#log = parts.log;
    this.#seen = parts.seen;
  }

  /** Passes the network's owner to the catalog. `fresh`: by a read that begins now. Throws ApiAway. */
  async learn(
    network: string,
    { byNodes = false, fresh = false, deadlineMs }: { byNodes?: boolean; fresh?: boolean; deadlineMs: number },
  ): Promise<void> {
    const readMs = this.#readMs.get(network);
    if (!fresh && readMs !== undefined && this.#api.clock.monotonicMs() - readMs < BELIEVED_MS) return;
    const read = () => this.#read(network, byNodes, deadlineMs);
    await (fresh ? this.#reading.renew(read, network) : this.#reading.run(read, network));
  }

  /** Whether the nodes' own configuration is known to have given the network with these very subnets. */
  listAsNodes(network: string, definition: NetworkDefinition): boolean {
    return this.#nodes.get(network)?.includes(subnetsOf(definition)) ?? false;
  }

  async #read(network: string, byNodes: boolean, deadlineMs: number): Promise<NetworkOwner | null> {
    const beganMs = this.#api.clock.monotonicMs();
    const seen = (object: IPNetwork | null) => {
      const nodes = object === null ? [] : nodeDefinitionsOf(object).map(subnetsOf);
      if (nodes.length > 0) this.#nodes.set(network, nodes);
      else this.#nodes.delete(network);
      this.#catalog.reservations.set(network, object);
      this.#seen(network, object);
    };
    const options = { catalog: this.#catalog, byNodes, seen, deadlineMs, log: this.#log };
    const owner = await recordOwner(this.#api, network, options);
    this.#catalog.setOwner(network, owner);
    if (owner === null) this.#readMs.delete(network);
    else this.#readMs.set(network, beganMs);
    return owner;
  }
}
