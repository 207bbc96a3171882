import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { IPNetwork } from "../kube/objects.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import type { DefinitionBook } from "./definition-book.ts";
import { nodeDefinitionsOf, subnetsOf } from "./import/import-sources.ts";
import type { NetworkOwner } from "./network-owner.ts";
import { type RecordOwnerOptions, recordOwner } from "./record-owner.ts";

/** How long, ms, an owner is believed before it is read again: an administrator's move counts after that. */
const BELIEVED_MS = 5_000;

/**
 * Whose the networks are that this node uses: read when an ADD needs it, recorded where nobody has yet, and told to the
 * book. A watch would bring every change of every network's counts to every node.
 */
export class NetworkOwners {
  readonly #api: KubeApi;
  readonly #book: DefinitionBook;
  readonly #log: RecordOwnerOptions["log"];
  readonly #seen: (network: string, object: IPNetwork | null) => void;
  readonly #readMs = new Map<string, number>();
  /** Subnets that the IPNetwork lists as the nodes', by network; those of one configuration are one text. */
  readonly #nodes = new Map<string, readonly string[]>();
  readonly #reading = new SingleFlight<NetworkOwner | null>();

  /** `seen` hears of every IPNetwork that is read. */
  constructor(parts: {
    readonly api: KubeApi;
    readonly book: DefinitionBook;
    readonly log: RecordOwnerOptions["log"];
    readonly seen: (network: string, object: IPNetwork | null) => void;
  }) {
    this.#api = parts.api;
    this.#book = parts.book;
    this.#log = parts.log;
    this.#seen = parts.seen;
  }

  /** Makes the book know whose a network is. `fresh`: by a read that begins now. Throws ApiAway. */
  async learn(
    network: string,
    {
      byNodes = false,
      fresh = false,
      deadlineMs,
    }: { byNodes?: boolean; fresh?: boolean; deadlineMs: number },
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
      this.#seen(network, object);
    };
    const options = { book: this.#book, byNodes, seen, deadlineMs, log: this.#log };
    const owner = await recordOwner(this.#api, network, options);
    this.#book.setOwner(network, owner);
    if (owner === null) this.#readMs.delete(network);
    else this.#readMs.set(network, beganMs);
    return owner;
  }
}
