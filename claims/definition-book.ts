import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Refusal } from "../ipam/refusals.ts";
import { type ObjectMetadata, objectAt, readMetadata, readTexts } from "../kube/views/object-metadata.ts";
import type { Clock } from "../platform/time.ts";
import { type BrokenNad, type NadReading, readNadConfig, stays } from "./nad-reading.ts";
import { isSharedWith, type NetworkOwner, readSharedWith, SHARED_WITH_ANNOTATION } from "./network-owner.ts";

/** The fields kept of a network attachment definition (NAD). */
export interface NadView extends ObjectMetadata {
  /** `spec.config`; "" when the configuration is in a file on the nodes. */
  readonly config: string;
  /** The server counts it up at every change of `spec`; 0 when it does not say. */
  readonly generation: number;
  /** The namespaces that the annotation shares its network with. */
  readonly sharedWith: readonly string[];
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
    sharedWith: readSharedWith(readTexts(object, "annotations").get(SHARED_WITH_ANNOTATION)),
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
  | { readonly kind: "conflict"; readonly network: string; readonly by: string; readonly other: string }
  /** The network is another namespace's, which has not shared it with this one. */
  | { readonly kind: "not-shared"; readonly network: string; readonly owner: NetworkOwner }
  /** The network is another namespace's, where nothing defines it now. */
  | { readonly kind: "undefined"; readonly network: string; readonly owner: NetworkOwner };

interface Entry {
  readonly nad: NadView;
  readonly reading: NadReading;
  /** When its configuration was read, ms of the monotonic clock. */
  readonly readMs: number;
  /** See NetworkNad; of one that is not ours its own generation. */
  readonly joinedAt: number;
  /** Interruptions before it was taken in. */
  readonly interruptions: number;
}

/** A NAD through which pods attach to a network. */
export interface NetworkNad extends NadView {
  /** The generation since which each edition of it was seen here to be ours, on this network, with these addresses. */
  readonly joinedAt: number;
}

/** A configuration that is longer is not read at each change: whoever may write one could keep every daemon busy with edits. */
const READ_AT_ONCE_CHARS_MAX = 16_384;
/** A long configuration that changes all the time is read at most so often, ms. Until then what it said before counts. */
const READ_PAUSE_MS = 5_000;

type OwnEntry = Pick<Entry, "nad" | "joinedAt"> & {
  readonly reading: Extract<NadReading, { kind: "ours" }>;
};

/** The NADs of one network, by key. The one that counts is known at any time: every ADD asks for it. */
interface Shelf {
  readonly entries: Map<string, OwnEntry>;
  /** Of any namespace. */
  oldest: OwnEntry;
  /** The oldest of the owner's namespace; null: there is none. */
  counting: OwnEntry | null;
}

/**
 * All network attachment definitions of the cluster, and which of them defines a network: of those in the namespace that
 * the network belongs to, the oldest that is ours and right, by creationTimestamp, then by key. One that is wrong defines
 * nothing and disturbs no other. Until the owner is known, it is taken to be the namespace of the oldest of all.
 */
export class DefinitionBook {
  readonly #entries = new Map<string, Entry>();
  /** Newest versions of NADs that are too long to be read at each change, and not read yet. */
  readonly #unread = new Map<string, NadView>();
  readonly #clock: Clock;
  #reading = false;
  #interruptions = 0;
  /** By network. */
  readonly #shelves = new Map<string, Shelf>();
  /** As recorded, by network. */
  readonly #owners = new Map<string, NetworkOwner>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes whose a network is; null: nobody has recorded it. */
  setOwner(network: string, owner: NetworkOwner | null): void {
    if (owner === null) this.#owners.delete(network);
    else this.#owners.set(network, owner);
    const shelf = this.#shelves.get(network);
    if (shelf) this.#settle(network, shelf);
  }

  /** Whose a network is: as recorded, else as its oldest NAD suggests; null: nobody's yet. */
  ownerOf(network: string): NetworkOwner | null {
    this.#readLong();
    const recorded = this.#owners.get(network);
    if (recorded !== undefined) return recorded;
    const oldest = this.#shelves.get(network)?.oldest;
    return oldest ? { definedIn: oldest.nad.namespace, sharedWith: [] } : null;
  }

  /** Whether a network's owner is recorded. */
  hasRecordedOwner(network: string): boolean {
    return this.#owners.has(network);
  }

  /** May pods attach to the network through a NAD of this namespace? */
  permits(network: string, namespace: string): boolean {
    this.#readLong();
    const owner = this.ownerOf(network);
    if (owner === null || owner.definedIn === namespace) return true;
    return isSharedWith(owner.sharedWith, namespace) || isSharedWith(this.#annotated(network), namespace);
  }

  /** Whose a network is, and everybody it is shared with: as recorded, and by the annotation; null: nobody's yet. */
  accessTo(network: string): NetworkOwner | null {
    this.#readLong();
    const owner = this.ownerOf(network);
    if (owner === null) return null;
    const sharedWith = [...new Set([...owner.sharedWith, ...this.#annotated(network)])].sort();
    return { definedIn: owner.definedIn, sharedWith };
  }

  /** Whether a NAD leaves its configuration to a file on the nodes. */
  isFromFile(nadKey: string): boolean {
    return this.#entries.get(nadKey)?.nad.config.trim() === "";
  }

  /** The namespaces that have NADs which leave their configuration to files on the nodes, in no order. */
  namespacesFromFile(): string[] {
    const fromFile = [...this.#entries.values()].filter(({ nad }) => nad.config.trim() === "");
    return [...new Set(fromFile.map(({ nad }) => nad.namespace))];
  }

  /** Whether a NAD is one of the network's, permitted or not. */
  definesNetwork(nadKey: string, network: string): boolean {
    this.#readLong();
    return this.#shelves.get(network)?.entries.has(nadKey) ?? false;
  }

  /** The namespaces that have a NAD of the network, whether or not they may use it; the oldest NAD's first. */
  namespacesOf(network: string): string[] {
    this.#readLong();
    const shelf = this.#shelves.get(network);
    if (!shelf) return [];
    return [...new Set([shelf.oldest, ...shelf.entries.values()].map(({ nad }) => nad.namespace))];
  }

  /** `spec.config` of every NAD of the namespace that the network belongs to, the one that counts first. */
  configsOf(network: string): string[] {
    this.#readLong();
    const shelf = this.#shelves.get(network);
    if (!shelf?.counting) return [];
    const { namespace } = shelf.counting.nad;
    const own = [...shelf.entries.values()].filter(({ nad }) => nad.namespace === namespace);
    return [...new Set([shelf.counting, ...own].map(({ nad }) => nad.config))];
  }

  /** What was followed may have been replaced meanwhile, by a restored etcd: whatever edition comes next proves nothing of those before. */
  interrupted(): void {
    this.#interruptions += 1;
  }

  /** Takes in a NAD, new or changed. A long one is read when somebody asks, and not again for a while. */
  upsert(nad: NadView): void {
    const isRead = this.#entries.get(nad.key)?.nad.config === nad.config;
    if (isRead || nad.config.length <= READ_AT_ONCE_CHARS_MAX) this.#take(nad);
    else this.#unread.set(nad.key, nad);
  }

  #take(nad: NadView): void {
    const known = this.#entries.get(nad.key);
    const unchanged =
      known?.nad.config === nad.config && known.nad.creationTimestamp === nad.creationTimestamp;
    const reading = unchanged ? known.reading : readNadConfig(nad.config);
    const readMs = unchanged ? known.readMs : this.#clock.monotonicMs();
    const unbroken = known?.interruptions === this.#interruptions;
    const joinedAt = known && stays(known, { nad, reading }, unbroken) ? known.joinedAt : nad.generation;
    this.remove(nad.key);
    this.#entries.set(nad.key, { nad, reading, readMs, joinedAt, interruptions: this.#interruptions });
    if (reading.kind === "ours") this.#shelve({ nad, reading, joinedAt });
  }

  /** Before every answer. */
  #readLong(): void {
    if (this.#unread.size === 0 || this.#reading) return;
    this.#reading = true;
    try {
      const nowMs = this.#clock.monotonicMs();
      for (const nad of [...this.#unread.values()]) {
        const known = this.#entries.get(nad.key);
        if (known === undefined || nowMs - known.readMs >= READ_PAUSE_MS) this.#take(nad);
      }
    } finally {
      this.#reading = false;
    }
  }

  /** Forgets a NAD, by `namespace/name`; unknown ones too. */
  remove(key: string): void {
    this.#unread.delete(key);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry?.reading.kind !== "ours") return;
    const network = entry.reading.definition.name;
    const shelf = this.#shelves.get(network);
    if (!shelf) return;
    shelf.entries.delete(key);
    if (shelf.entries.size === 0) this.#shelves.delete(network);
    else if (shelf.oldest.nad.key === key || shelf.counting?.nad.key === key) this.#settle(network, shelf);
  }

  /** The definition of a network, null when no NAD defines it. */
  definitionOf(network: string): CountingDefinition | null {
    this.#readLong();
    const counts = this.#shelves.get(network)?.counting;
    return counts ? counting(counts) : null;
  }

  /** May an ADD come through this NAD (`namespace/name`)? */
  verdict(nadKey: string): NadVerdict {
    this.#readLong();
    const entry = this.#entries.get(nadKey);
    if (!entry) return { kind: "unknown" };
    const { reading } = entry;
    if (reading.kind !== "ours") return reading;
    const { name: network, fingerprint } = reading.definition;
    const shelf = this.#shelves.get(network);
    const owner = this.ownerOf(network);
    if (!shelf || owner === null) throw new Error(`network ${network} has a NAD, but no owner`);
    if (!this.permits(network, entry.nad.namespace)) return { kind: "not-shared", network, owner };
    if (shelf.counting === null) return { kind: "undefined", network, owner };
    if (shelf.counting.reading.definition.fingerprint !== fingerprint) {
      return { kind: "conflict", network, by: shelf.counting.nad.key, other: nadKey };
    }
    return { kind: "ok", network, ...counting(shelf.counting) };
  }

  /** NADs that are ours and wrong. */
  broken(): ({ readonly key: string } & BrokenNad)[] {
    this.#readLong();
    return [...this.#entries].flatMap(([key, { reading }]) =>
      reading.kind === "broken" ? [{ key, network: reading.network, refusal: reading.refusal }] : [],
    );
  }

  /** The network that a NAD belongs to; null when it is not ours, wrong, or in a namespace that may not use the network. */
  networkOfNad(nadKey: string): string | null {
    this.#readLong();
    const entry = this.#entries.get(nadKey);
    if (entry?.reading.kind !== "ours") return null;
    const network = entry.reading.definition.name;
    return this.permits(network, entry.nad.namespace) ? network : null;
  }

  /** The NADs through which pods attach to a network, in no order; those that disagree with its definition too. */
  nadsOf(network: string): NetworkNad[] {
    const entries = [...(this.#shelves.get(network)?.entries.values() ?? [])];
    return entries
      .filter(({ nad }) => this.networkOfNad(nad.key) === network)
      .map(({ nad, joinedAt }) => ({ ...nad, joinedAt }));
  }

  /** The names of all networks that are ours, sorted. */
  networks(): string[] {
    this.#readLong();
    return [...this.#shelves.keys()].sort();
  }

  #annotated(network: string): readonly string[] {
    return this.#shelves.get(network)?.counting?.nad.sharedWith ?? [];
  }

  #shelve(entry: OwnEntry): void {
    const network = entry.reading.definition.name;
    const shelf = this.#shelves.get(network);
    if (!shelf) {
      const entries = new Map([[entry.nad.key, entry]]);
      const made: Shelf = { entries, oldest: entry, counting: null };
      this.#shelves.set(network, made);
      this.#settle(network, made);
      return;
    }
    shelf.entries.set(entry.nad.key, entry);
    const { oldest, counting } = shelf;
    shelf.oldest = older(oldest, entry);
    // Thousands of namespaces may have a NAD of one network: all of them are looked at only when the owner may be another.
    const moved = shelf.oldest.nad.namespace !== oldest.nad.namespace && !this.#owners.has(network);
    if (moved) this.#settle(network, shelf);
    else if (entry.nad.namespace === this.ownerOf(network)?.definedIn)
      shelf.counting = counting === null ? entry : older(counting, entry);
  }

  #settle(network: string, shelf: Shelf): void {
    const entries = [...shelf.entries.values()];
    shelf.oldest = entries.reduce(older);
    const { definedIn } = this.#owners.get(network) ?? { definedIn: shelf.oldest.nad.namespace };
    // No namespace is called NODES_OWN.
    const own = entries.filter(({ nad }) => nad.namespace === definedIn);
    shelf.counting = own.length === 0 ? null : own.reduce(older);
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
