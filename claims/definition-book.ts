import type { NetworkDefinition } from "../ipam/network-definition.ts";
import { parseNadConfigIfOurs } from "../ipam/network-definition.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { type ObjectMetadata, objectAt, readMetadata } from "./object-metadata.ts";

/** The fields kept of a network attachment definition (NAD). */
export interface NadView extends ObjectMetadata {
  /** `spec.config`; "" when the configuration is in a file on the nodes. */
  readonly config: string;
  /** The server counts it up at every change of `spec`; 0 when it does not say. */
  readonly generation: number;
}

/** Keeps of a NetworkAttachmentDefinition what Holdfast reads. Throws MalformedObjectError. */
export function projectNad(object: unknown): NadView {
  const metadata = readMetadata(object, "NetworkAttachmentDefinition");
  const { config } = objectAt(object, "spec", "NetworkAttachmentDefinition");
  const { generation } = objectAt(object, "metadata", "NetworkAttachmentDefinition");
  return {
    ...metadata,
    config: typeof config === "string" ? config : "",
    generation: typeof generation === "number" ? generation : 0,
  };
}

/** The definition of a network that counts. */
export interface CountingDefinition {
  readonly definition: NetworkDefinition;
  /** Its NAD, `namespace/name`. */
  readonly by: string;
  /** `spec.config` of that NAD. */
  readonly source: string;
}

/** What an ADD through a certain NAD meets. */
export type NadVerdict =
  | ({ readonly kind: "ok"; readonly network: string } & CountingDefinition)
  | { readonly kind: "unknown" }
  | { readonly kind: "not-ours" }
  /** Unreadable, or ours and wrong. */
  | { readonly kind: "broken"; readonly refusal: Refusal }
  /** `other`, the NAD asked about, says something else than `by`, which counts. */
  | { readonly kind: "conflict"; readonly network: string; readonly by: string; readonly other: string };

type Reading =
  | { readonly kind: "ours"; readonly definition: NetworkDefinition }
  | { readonly kind: "not-ours" }
  | { readonly kind: "broken"; readonly refusal: Refusal };

interface Entry {
  readonly nad: NadView;
  readonly reading: Reading;
}

interface OwnEntry {
  readonly nad: NadView;
  readonly reading: { readonly kind: "ours"; readonly definition: NetworkDefinition };
}

/** The NADs of one network, by key. The oldest is known at any time: every ADD asks for it. */
interface Shelf {
  readonly entries: Map<string, OwnEntry>;
  oldest: OwnEntry;
}

/**
 * All network attachment definitions of the cluster, and which of them defines a network: the oldest that is ours and
 * right, by creationTimestamp, then by key. One that is wrong defines nothing and disturbs no other.
 */
export class DefinitionBook {
  readonly #entries = new Map<string, Entry>();
  /** By network. */
  readonly #shelves = new Map<string, Shelf>();

  /** Takes in a NAD, new or changed. */
  upsert(nad: NadView): void {
    const known = this.#entries.get(nad.key);
    const unchanged =
      known?.nad.config === nad.config && known.nad.creationTimestamp === nad.creationTimestamp;
    const reading = unchanged ? known.reading : read(nad.config);
    this.remove(nad.key);
    this.#entries.set(nad.key, { nad, reading });
    if (reading.kind === "ours") this.#shelve({ nad, reading });
  }

  /** Forgets a NAD, by `namespace/name`; unknown ones too. */
  remove(key: string): void {
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry?.reading.kind !== "ours") return;
    const network = entry.reading.definition.name;
    const shelf = this.#shelves.get(network);
    if (!shelf) return;
    shelf.entries.delete(key);
    if (shelf.oldest.nad.key !== key) return;
    const [first, ...rest] = shelf.entries.values();
    if (first === undefined) this.#shelves.delete(network);
    else shelf.oldest = rest.reduce(older, first);
  }

  /** The definition of a network, null when no NAD defines it. */
  definitionOf(network: string): CountingDefinition | null {
    const shelf = this.#shelves.get(network);
    return shelf ? counting(shelf.oldest) : null;
  }

  /** May an ADD come through this NAD (`namespace/name`)? */
  verdict(nadKey: string): NadVerdict {
    const entry = this.#entries.get(nadKey);
    if (!entry) return { kind: "unknown" };
    const { reading } = entry;
    if (reading.kind !== "ours") return reading;
    const { name: network, fingerprint } = reading.definition;
    const oldest = this.#shelves.get(network)?.oldest;
    if (!oldest) throw new Error(`network ${network} has a NAD, but no definition`);
    if (oldest.reading.definition.fingerprint !== fingerprint) {
      return { kind: "conflict", network, by: oldest.nad.key, other: nadKey };
    }
    return { kind: "ok", network, ...counting(oldest) };
  }

  /** The network that a NAD belongs to, null when it is not ours or wrong. */
  networkOfNad(nadKey: string): string | null {
    const reading = this.#entries.get(nadKey)?.reading;
    return reading?.kind === "ours" ? reading.definition.name : null;
  }

  /** The NADs through which pods attach to a network, in no order; those that disagree with its definition too. */
  nadsOf(network: string): NadView[] {
    const entries = [...(this.#shelves.get(network)?.entries.values() ?? [])];
    return entries.map(({ nad }) => nad).filter(({ key }) => this.networkOfNad(key) === network);
  }

  /** The names of all networks that are ours, sorted. */
  networks(): string[] {
    return [...this.#shelves.keys()].sort();
  }

  #shelve(entry: OwnEntry): void {
    const network = entry.reading.definition.name;
    const shelf = this.#shelves.get(network);
    if (!shelf) {
      this.#shelves.set(network, { entries: new Map([[entry.nad.key, entry]]), oldest: entry });
      return;
    }
    shelf.entries.set(entry.nad.key, entry);
    shelf.oldest = older(shelf.oldest, entry);
  }
}

/** A network without ranges is wrong: in Kubernetes nothing else could give them. */
function read(config: string): Reading {
  try {
    const nad = parseNadConfigIfOurs(config);
    if (nad === null) return { kind: "not-ours" };
    if (nad.definition.rangeSets.length === 0) {
      return { kind: "broken", refusal: refuse("NETWORK_UNDEFINED", { network: nad.network }) };
    }
    return { kind: "ours", definition: nad.definition };
  } catch (error) {
    if (error instanceof RefusalError) return { kind: "broken", refusal: error.refusal };
    throw error;
  }
}

function counting({ nad, reading }: OwnEntry): CountingDefinition {
  return { definition: reading.definition, by: nad.key, source: nad.config };
}

/** The API server writes times in one form, so their texts have the order of the times. */
function older<T extends { readonly nad: NadView }>(a: T, b: T): T {
  if (a.nad.creationTimestamp !== b.nad.creationTimestamp) {
    return a.nad.creationTimestamp < b.nad.creationTimestamp ? a : b;
  }
  return a.nad.key < b.nad.key ? a : b;
}
