/*
 * networks/: what defines a network, and whose it is
 *
 *   definition-catalog            the definition in force for a network; nad-view, nad-reading, nad-verdict: a source
 *   listed-definitions            the catalog beside the API server's list
 *   network-reservations          lists of reservations that stand on IPNetworks
 *   pool-definition, definitions-with-pools   AddressPools that define a network
 *   network-owner(s), record-owner            the namespace that owns a network
 *   import-sources                definitions whose users from before Holdfast have been recorded
 *   node-configurations           differences in the files on a node
 *   udn/                          OVN-Kubernetes' definitions
 */

import { type Refusal, RefusalError } from "../ipam/refusals.ts";
import type { Clock } from "../platform/time.ts";
import { type BrokenNad, type NadReading, older, readNadConfig, stays } from "./nad-reading.ts";
import type { CountingDefinition, NadVerdict } from "./nad-verdict.ts";
import type { NadView } from "./nad-view.ts";
import { isSharedWith, type NetworkOwner } from "./network-owner.ts";
import { NetworkReservations } from "./network-reservations.ts";

interface Entry {
  readonly nad: NadView;
  readonly reading: NadReading;
  /** When its configuration was read, ms of the monotonic clock. */
  readonly readMs: number;
  /** See NetworkNad; for a NAD that is not ours, its own generation. */
  readonly joinedAt: number;
  /** Number of interruptions of the watch before it was read. */
  readonly interruptions: number;
}

export interface NetworkNad extends NadView {
  /** The generation since which every edition was seen here to be ours, on this network, with these addresses. */
  readonly joinedAt: number;
}

/** Longer configurations are not parsed at each change: frequent edits of them could keep every daemon busy. */
const READ_AT_ONCE_CHARS_MAX = 16_384;
/** A long configuration that keeps changing is parsed at most this often, ms. Until then its former content counts. */
const READ_PAUSE_MS = 5_000;

type OwnEntry = Pick<Entry, "nad" | "joinedAt"> & {
  readonly reading: Extract<NadReading, { kind: "ours" }>;
};

/** The NADs of one network, by key. The one in force is always known: every ADD needs it. */
interface NetworkNads {
  readonly entries: Map<string, OwnEntry>;
  /** In any namespace. */
  oldest: OwnEntry;
  /** The oldest in the owner's namespace; null: there is none. */
  counting: OwnEntry | null;
}

/**
 * All network attachment definitions of the cluster, and which of them defines a network: in the namespace that the
 * network belongs to, the oldest valid one of ours, by creationTimestamp, then by key. An invalid one defines nothing
 * and affects no other. Until the owner is known, it is assumed to be the namespace of the oldest of all.
 */
export class DefinitionCatalog {
  /** Those on IPNetworks, part of every definition that it gives. */
  readonly reservations = new NetworkReservations();
  readonly #entries = new Map<string, Entry>();
  /** Newest versions of NADs that are too long to be parsed at each change, not parsed yet. */
  readonly #unread = new Map<string, NadView>();
  readonly #clock: Clock;
  #reading = false;
  #interruptions = 0;
  readonly #nadsOf = new Map<string, NetworkNads>();
  /** As recorded, by network. */
  readonly #owners = new Map<string, NetworkOwner>();
  /** Keys of NADs that were read by themselves and that the watch has not delivered since. */
  readonly #ahead = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sets the owner of a network; null: none is recorded. */
  setOwner(network: string, owner: NetworkOwner | null): void {
    if (owner === null) this.#owners.delete(network);
    else this.#owners.set(network, owner);
    const nads = this.#nadsOf.get(network);
    if (nads) this.#settle(network, nads);
  }

  /** The owner of a network: as recorded, else the namespace of its oldest NAD; null: it has none yet. */
  ownerOf(network: string): NetworkOwner | null {
    this.#readLong();
    const recorded = this.#owners.get(network);
    if (recorded !== undefined) return recorded;
    const oldest = this.#nadsOf.get(network)?.oldest;
    return oldest ? { definedIn: oldest.nad.namespace, sharedWith: [] } : null;
  }

  hasRecordedOwner(network: string): boolean {
    return this.#owners.has(network);
  }

  /** Whether pods may attach to the network through a NAD of this namespace. */
  permits(network: string, namespace: string): boolean {
    this.#readLong();
    const owner = this.ownerOf(network);
    if (owner === null || owner.definedIn === namespace) return true;
    return isSharedWith(owner.sharedWith, namespace) || isSharedWith(this.#annotated(network), namespace);
  }

  /** The owner of a network and all namespaces it is shared with, recorded or by annotation; null: no owner yet. */
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

  /** The namespaces that have a NAD of the network, whether or not they may use it; the oldest NAD's first. */
  namespacesOf(network: string): string[] {
    this.#readLong();
    const nads = this.#nadsOf.get(network);
    if (!nads) return [];
    return [...new Set([nads.oldest, ...nads.entries.values()].map(({ nad }) => nad.namespace))];
  }

  /** The watch was interrupted, perhaps by a restored etcd: later editions prove nothing about earlier ones. */
  interrupted(): void {
    this.#interruptions += 1;
  }

  /** Adds or changes a NAD. A long one is parsed when it is needed. `isAhead`: the watch has not delivered it yet. */
  upsert(nad: NadView, { isAhead = false } = {}): void {
    const isRead = this.#entries.get(nad.key)?.nad.config === nad.config;
    if (isRead || nad.config.length <= READ_AT_ONCE_CHARS_MAX) this.#take(nad);
    else this.#unread.set(nad.key, nad);
    if (isAhead) this.#ahead.add(nad.key);
  }

  /** Whether it may know a NAD of the network and not an older one. */
  isAhead(network: string): boolean {
    this.#readLong();
    return [...this.#ahead].some((key) => this.#nadsOf.get(network)?.entries.has(key));
  }

  #take(nad: NadView): void {
    const known = this.#entries.get(nad.key);
    const unchanged = known?.nad.config === nad.config && known.nad.creationTimestamp === nad.creationTimestamp;
    const reading = unchanged ? known.reading : readNadConfig(nad.config, nad.name);
    const readMs = unchanged ? known.readMs : this.#clock.monotonicMs();
    const unbroken = known?.interruptions === this.#interruptions;
    const joinedAt = known && stays(known, { nad, reading }, unbroken) ? known.joinedAt : nad.generation;
    this.remove(nad.key);
    this.#entries.set(nad.key, { nad, reading, readMs, joinedAt, interruptions: this.#interruptions });
    if (reading.kind === "ours") this.#shelve({ nad, reading, joinedAt });
  }

  /** Called before every answer: parses long NADs that are due. */
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
    this.#ahead.delete(key);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry?.reading.kind !== "ours") return;
    const network = entry.reading.definition.name;
    const nads = this.#nadsOf.get(network);
    if (!nads) return;
    nads.entries.delete(key);
    if (nads.entries.size === 0) this.#nadsOf.delete(network);
    else if (nads.oldest.nad.key === key || nads.counting?.nad.key === key) this.#settle(network, nads);
  }

  /** The definition of a network; null when no NAD defines it, or what is reserved on its IPNetwork cannot be read. */
  definitionOf(network: string): CountingDefinition | null {
    this.#readLong();
    const counts = this.#nadsOf.get(network)?.counting;
    const found = counts ? this.reserving(counting(counts)) : null;
    return found === null || "code" in found ? null : found;
  }

  /** Throws RefusalError when only what is reserved on its IPNetwork keeps the network from having a definition. */
  refuseUnreadable(network: string): void {
    const counts = this.#nadsOf.get(network)?.counting;
    if (counts) this.reservations.within(counts.reading.definition);
  }

  /** With what is reserved on the IPNetwork, or why that cannot be read. */
  protected reserving(counts: CountingDefinition): CountingDefinition | Refusal {
    try {
      return { ...counts, definition: this.reservations.within(counts.definition) };
    } catch (error) {
      if (error instanceof RefusalError) return error.refusal;
      throw error;
    }
  }

  /** `namespace/name` of each NAD. */
  keys(): string[] {
    return [...new Set([...this.#entries.keys(), ...this.#unread.keys()])];
  }

  /** `spec.config` of a NAD (`namespace/name`), whoever's plugin it is for. */
  configOf(nadKey: string): string | undefined {
    return (this.#unread.get(nadKey) ?? this.#entries.get(nadKey)?.nad)?.config;
  }

  verdict(nadKey: string): NadVerdict {
    this.#readLong();
    const entry = this.#entries.get(nadKey);
    if (!entry) return { kind: "unknown" };
    const { reading } = entry;
    if (reading.kind !== "ours") return reading;
    const { name: network, fingerprint } = reading.definition;
    const nads = this.#nadsOf.get(network);
    const owner = this.ownerOf(network);
    if (!nads || owner === null) throw new Error(`network ${network} has a NAD, but no owner`);
    if (!this.permits(network, entry.nad.namespace)) return { kind: "not-shared", network, owner };
    if (nads.counting === null) return { kind: "undefined", network, owner };
    if (nads.counting.reading.definition.fingerprint !== fingerprint) {
      return { kind: "conflict", network, by: nads.counting.nad.key, other: nadKey };
    }
    const found = this.reserving(counting(nads.counting));
    return "code" in found
      ? { kind: "reservations-broken", network, refusal: found }
      : { kind: "ok", network, ...found };
  }

  /** NADs that are invalid, and those in force on a network with a list of reservations that is. */
  broken(): ({ readonly key: string } & BrokenNad)[] {
    this.#readLong();
    const byThemselves = [...this.#entries].flatMap(([key, { reading }]) =>
      reading.kind === "broken" ? [{ key, network: reading.network, refusal: reading.refusal }] : [],
    );
    const byList = [...this.#nadsOf].flatMap(([network, { counting: counts }]) => {
      const found = counts && this.reserving(counting(counts));
      return found && "code" in found ? [{ key: counts.nad.key, network, refusal: found }] : [];
    });
    return [...byThemselves, ...byList];
  }

  /** The network of a NAD; null when it is not ours, invalid, or in a namespace that may not use the network. */
  networkOfNad(nadKey: string): string | null {
    this.#readLong();
    const entry = this.#entries.get(nadKey);
    if (entry?.reading.kind !== "ours") return null;
    const network = entry.reading.definition.name;
    return this.permits(network, entry.nad.namespace) ? network : null;
  }

  /** The NADs through which pods attach to a network, in no order, also those that disagree with its definition. */
  nadsOf(network: string): NetworkNad[] {
    const entries = [...(this.#nadsOf.get(network)?.entries.values() ?? [])];
    return entries
      .filter(({ nad }) => this.networkOfNad(nad.key) === network)
      .map(({ nad, joinedAt }) => ({ ...nad, joinedAt }));
  }

  /** The names of all networks that are ours, sorted. */
  networks(): string[] {
    this.#readLong();
    return [...this.#nadsOf.keys()].sort();
  }

  #annotated(network: string): readonly string[] {
    return this.#nadsOf.get(network)?.counting?.nad.sharedWith ?? [];
  }

  #shelve(entry: OwnEntry): void {
    const network = entry.reading.definition.name;
    const nads = this.#nadsOf.get(network);
    if (!nads) {
      const entries = new Map([[entry.nad.key, entry]]);
      const made: NetworkNads = { entries, oldest: entry, counting: null };
      this.#nadsOf.set(network, made);
      this.#settle(network, made);
      return;
    }
    nads.entries.set(entry.nad.key, entry);
    const { oldest, counting } = nads;
    nads.oldest = older(oldest, entry);
    // Thousands of namespaces may have a NAD of one network: all of them are compared only when the oldest may have
    // changed.
    const moved = nads.oldest.nad.namespace !== oldest.nad.namespace && !this.#owners.has(network);
    if (moved) this.#settle(network, nads);
    else if (entry.nad.namespace === this.ownerOf(network)?.definedIn)
      nads.counting = counting === null ? entry : older(counting, entry);
  }

  #settle(network: string, nads: NetworkNads): void {
    const entries = [...nads.entries.values()];
    nads.oldest = entries.reduce(older);
    const { definedIn } = this.#owners.get(network) ?? { definedIn: nads.oldest.nad.namespace };
    // No namespace is called NODES_OWN.
    const own = entries.filter(({ nad }) => nad.namespace === definedIn);
    nads.counting = own.length === 0 ? null : own.reduce(older);
  }
}

function counting({ nad, reading }: OwnEntry): CountingDefinition {
  return { definition: reading.definition, by: nad.key, source: nad.config };
}
