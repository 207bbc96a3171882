import { type Address, formatAddress } from "../../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { cooldownEndMs } from "../../../ipam/space/rest.ts";
import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { allocationNamePrefix, labelValue, prefixOfAllocationName } from "../../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  ANNOTATION_ADDRESS,
  LABEL_OWNER,
  LABEL_STATE,
  type ObjectMeta,
} from "../../../kube/objects.ts";
import { SingleFlight } from "../../../platform/single-flight.ts";
import { NetworkSpace, type StoredAddress } from "../../network-space.ts";

/** For the list that the server sends from its cache in one piece, ms: 16,000 allocations take one second. */
const CACHED_LIST_MS_MAX = 20_000;

/** What this node believes about one address. */
interface Entry {
  readonly address: Address;
  /** The owner's UID in the form of a label. */
  readonly owner: string;
  readonly cooling: boolean;
  readonly retained: boolean;
  readonly resourceVersion: string;
  /** When this cool-down was first seen here, ms of the monotonic clock. */
  readonly restingSinceMs: number;
  /** Number of the refresh that last saw it, or after which this node learnt it in another way. */
  seen: number;
}

type Learnt = Omit<Entry, "restingSinceMs" | "seen">;

interface Network {
  readonly space: NetworkSpace;
  readonly entries: Map<string, Entry>;
}

/**
 * The addresses that this node believes to be taken, cluster-wide. Only a hint: a wrong belief costs a refused create,
 * never a duplicate. It is filled from a cached list of metadata, updated by what this node sees itself, and refreshed
 * when it proves poor.
 */
export class Hint {
  readonly #api: KubeApi;
  readonly #node: string;
  /** By the prefix of the names of the network's allocations: the labels of two networks may be equal. */
  readonly #networks = new Map<string, Network>();
  /** The prefix of the names of a network's allocations, by network: every ADD asks several times, and it is a hash. */
  readonly #keys = new Map<string, string>();
  /** Owner's label and network's key → addresses, to find an owner's addresses without reading everything. */
  readonly #byOwner = new Map<string, Map<string, Entry>>();
  #refresh = 0;
  readonly #refreshing = new SingleFlight<void>();
  #refreshedMs = Number.NEGATIVE_INFINITY;
  #lastId = 0;

  constructor(api: KubeApi, node: string) {
    this.#api = api;
    this.#node = node;
  }

  /** Age of the last complete list, ms; Infinity before the first. */
  get ageMs(): number {
    return this.#api.clock.monotonicMs() - this.#refreshedMs;
  }

  /** The believed free space of a network. */
  space(network: string): NetworkSpace {
    return this.#network(this.#keyOf(network), network).space;
  }

  /** Addresses that an owner is believed to have on a network, cooling ones included. */
  ownedBy(network: string, ownerUid: string): Address[] {
    const owned = this.#byOwner.get(`${labelValue(ownerUid)} ${this.#keyOf(network)}`);
    return owned ? [...owned.values()].map((entry) => entry.address) : [];
  }

  /** How long this very cool-down of an address has been seen here, ms; -1: it has not. */
  restSeenMs(network: string, address: Address, resourceVersion: string): number {
    const entry = this.#known(this.#keyOf(network), address);
    if (!entry?.cooling || entry.resourceVersion !== resourceVersion) return -1;
    return this.#api.clock.monotonicMs() - entry.restingSinceMs;
  }

  /** Bound and Retained addresses of a network, inside its ranges or not. */
  boundCount(network: string): number {
    let bound = 0;
    for (const { cooling } of this.#network(this.#keyOf(network), network).entries.values())
      if (!cooling) bound += 1;
    return bound;
  }

  /** Notes an object that this node wrote or read. */
  note(
    network: string,
    address: Address,
    ownerUid: string,
    state: string | undefined,
    resourceVersion: string,
  ): void {
    const entry = { address, owner: labelValue(ownerUid), ...inState(state), resourceVersion };
    this.#put(this.#keyOf(network), network, entry);
  }

  /** Notes that there is no object for this address. */
  noteFree(network: string, address: Address): void {
    this.#remove(this.#keyOf(network), formatAddress(address));
  }

  /** Notes the metadata of an allocation from a list or a watch. Malformed metadata is ignored: it is only a hint. */
  learn(meta: ObjectMeta): void {
    const entry = entryOf(meta);
    if (entry) this.#put(entry.network, null, entry);
  }

  forget(meta: ObjectMeta): void {
    const entry = entryOf(meta);
    if (entry) this.#remove(entry.network, formatAddress(entry.address));
  }

  /** Reads everything again. Concurrent callers share one refresh. Throws ApiAway. */
  refresh(): Promise<void> {
    return this.#refreshing.run(() => this.#readAll());
  }

  async #readAll(): Promise<void> {
    this.#refresh += 1;
    const round = this.#refresh;
    const each = (object: { metadata: ObjectMeta }) => {
      const entry = entryOf(object.metadata);
      // What this node has learnt since the list was requested is newer than the list.
      if (entry && this.#known(entry.network, entry.address)?.seen !== round) {
        this.#put(entry.network, null, entry, round - 0.5);
      }
    };
    const list = { path: ALLOCATIONS_PATH, metadataOnly: true, each };
    const deadlineMs = this.#api.clock.monotonicMs() + CACHED_LIST_MS_MAX;
    try {
      await this.#api.list({ ...list, query: { resourceVersion: "0" }, deadlineMs });
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      // In one piece it was too much for the server: page by page is slower, but completes.
      await this.#api.list(list);
    }
    for (const [key, { entries, space }] of this.#networks) {
      for (const [text, entry] of entries) if (entry.seen < round - 0.5) this.#remove(key, text);
      // The pools are rebuilt from the entries when next used; marks left behind by an ADD go with the old pools.
      space.forgetPools();
    }
    this.#refreshedMs = this.#api.clock.monotonicMs();
  }

  #known(key: string, address: Address): Entry | undefined {
    return this.#networks.get(key)?.entries.get(formatAddress(address));
  }

  #put(key: string, name: string | null, entry: Learnt, seen = this.#refresh): void {
    const { space, entries } = this.#network(key, name);
    const text = formatAddress(entry.address);
    const before = entries.get(text);
    const sameRest = before?.cooling && entry.cooling && before.resourceVersion === entry.resourceVersion;
    const nowMs = this.#api.clock.monotonicMs();
    const now: Entry = { ...entry, seen, restingSinceMs: sameRest ? before.restingSinceMs : nowMs };
    entries.set(text, now);
    if (before) this.#unown(key, text, before);
    this.#own(key, text, now);
    if (before && before.cooling === entry.cooling && (sameRest || !entry.cooling)) {
      if (before.retained !== entry.retained)
        entry.retained ? space.retain(entry.address) : space.endRetention(entry.address);
      return;
    }
    if (!before || before.cooling) space.allocate(entry.address, false);
    if (entry.cooling) {
      space.release(entry.address, cooldownEndMs(space.definition, now.restingSinceMs), nowMs);
    }
    if (entry.retained) space.retain(entry.address);
  }

  #remove(key: string, text: string): void {
    const network = this.#networks.get(key);
    const entry = network?.entries.get(text);
    if (!network || !entry) return;
    network.entries.delete(text);
    this.#unown(key, text, entry);
    if (entry.cooling) network.space.endRest(entry.address);
    else network.space.release(entry.address, 0, this.#api.clock.monotonicMs());
  }

  #own(key: string, text: string, entry: Entry): void {
    const owner = `${entry.owner} ${key}`;
    const owned = this.#byOwner.get(owner);
    if (owned) owned.set(text, entry);
    else this.#byOwner.set(owner, new Map([[text, entry]]));
  }

  #unown(key: string, text: string, entry: Entry): void {
    const owner = `${entry.owner} ${key}`;
    const owned = this.#byOwner.get(owner);
    owned?.delete(text);
    if (owned?.size === 0) this.#byOwner.delete(owner);
  }

  #keyOf(network: string): string {
    const known = this.#keys.get(network);
    if (known !== undefined) return known;
    const key = allocationNamePrefix(network);
    this.#keys.set(network, key);
    return key;
  }

  #network(key: string, name: string | null): Network {
    const known = this.#networks.get(key);
    if (known) return known;
    this.#lastId += 1;
    const entries = new Map<string, Entry>();
    const stored = function* (): Generator<StoredAddress> {
      for (const { address, cooling, retained, restingSinceMs } of entries.values()) {
        yield { address, cooling, retained, restingSinceMs };
      }
    };
    const network = { space: new NetworkSpace(this.#lastId, name ?? key, stored, this.#node), entries };
    this.#networks.set(key, network);
    return network;
  }
}

function inState(state: string | undefined): Pick<Entry, "cooling" | "retained"> {
  return { cooling: state === "Cooling", retained: state === "Retained" };
}

function entryOf(meta: ObjectMeta): (Learnt & { network: string }) | null {
  const network = prefixOfAllocationName(meta.name);
  const text = meta.annotations?.[ANNOTATION_ADDRESS];
  if (network === null || text === undefined) return null;
  try {
    return {
      network,
      address: parseInterfaceAddress(text).address,
      owner: meta.labels?.[LABEL_OWNER] ?? "",
      ...inState(meta.labels?.[LABEL_STATE]),
      resourceVersion: meta.resourceVersion,
    };
  } catch {
    return null;
  }
}
