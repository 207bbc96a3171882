import { type Address, formatAddress, parseAddress } from "../ipam/space/address.ts";
import { IntervalSet } from "../ipam/space/interval-set.ts";
import { FAMILIES } from "../ipam/space/used-space.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { allocationNamePrefix, labelSelector, prefixOfAllocationName } from "../kube/object-names.ts";
import { ALLOCATIONS_PATH, LABEL_NETWORK, type ObjectMeta } from "../kube/objects.ts";
import type { PublishedSpace } from "../kube/views/published-space.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import { spaceOf } from "./listed-space.ts";
import { NetworkSpace, type StoredAddress } from "./network-space.ts";
import { type Note, Notes, type State } from "./notes.ts";

/** A network is said to be full only by a picture that was true so long ago at most, ms. */
const FRESH_MS_MAX = 30_000;
/** A controller publishes a network at most so often, ms: reading it again sooner shows nothing new. */
const READ_AGAIN_MS = 1_000;
/** For the list of one network that the server sends from its cache, ms. */
const LIST_MS_MAX = 20_000;
/** With more differences than this between two pictures, pools are built anew. */
const DIFFERENCES_MAX = 4_096n;

interface Known {
  readonly space: NetworkSpace;
  readonly notes: Notes;
  published: PublishedSpace | null;
  /** Addresses that cool down according to `published`: since when, ms of the monotonic clock. */
  cooling: ReadonlyMap<string, { readonly address: Address; readonly sinceMs: number }>;
  /** When the picture was true, ms of the monotonic clock. */
  trueMs: number;
  /** When what is published was read last, ms of the monotonic clock. */
  readMs: number;
}

export interface PictureOptions {
  readonly api: Pick<KubeApi, "clock" | "list">;
  /** Where searches begin, so that nodes that share a network start at different addresses. */
  readonly startSeed: string;
  /** The API server's clock, ms since 1970. */
  serverMs(): number;
  /** Reads what is published of a network and passes it to `take`. Throws ApiAway. */
  read(network: string, deadlineMs: number): Promise<void>;
}

/**
 * Which addresses are believed to be taken: what the controller publishes of a network, and what this process has seen
 * of it since. Only a belief: a wrong one costs a refused create, never a duplicate. Nothing is listed or followed for
 * it. See docs/decisions/0073.
 */
export class Picture {
  readonly #options: PictureOptions;
  readonly #networks = new Map<string, Known>();
  readonly #reading = new SingleFlight<void>();
  readonly #listing = new SingleFlight<void>();

  constructor(options: PictureOptions) {
    this.#options = options;
  }

  /** The believed free space of a network. */
  space(network: string): NetworkSpace {
    return this.#known(network).space;
  }

  /**
   * Addresses that an owner is believed to have on a network besides those that it is known for elsewhere, cooling ones
   * included.
   */
  ownedBy(network: string, ownerUid: string): Address[] {
    const { notes, published } = this.#known(network);
    const found = [...notes.ofOwner(ownerUid)];
    for (const [text, uid] of published?.unlisted ?? [])
      if (uid === ownerUid && !notes.has(text)) found.push(parseAddress(text));
    return found;
  }

  /** How long this very cool-down of an address has been seen here, ms; -1: it has not. */
  cooldownSeenMs(network: string, address: Address, resourceVersion: string): number {
    const note = this.#known(network).notes.get(formatAddress(address));
    if (note?.state !== "cooling" || note.resourceVersion !== resourceVersion) return -1;
    return this.#nowMs - note.coolingSinceMs;
  }

  /** Allocated and retained addresses of a network, inside its ranges or not. */
  boundCount(network: string): number {
    const { notes, published } = this.#known(network);
    let bound = published === null ? 0 : Number(published.used[4].size + published.used[6].size);
    for (const { address, state } of notes.values()) {
      const before = published?.used[address.family].contains(address.value) ? 1 : 0;
      bound += (state === "allocated" || state === "retained" ? 1 : 0) - before;
    }
    return bound;
  }

  /** When what is known of the network was published, by the API server's clock, ms; null: nothing is known. */
  observedMs(network: string): number | null {
    return this.#known(network).published?.observedMs ?? null;
  }

  /** How long ago the picture was true, ms; Infinity: there is none. */
  ageMs(network: string): number {
    return this.#nowMs - this.#known(network).trueMs;
  }

  /** Whether a network is full in which the picture shows no free address. */
  #isFresh(network: string): boolean {
    return this.ageMs(network) <= FRESH_MS_MAX;
  }

  /** Notes an object that this process wrote or read. */
  note(network: string, address: Address, ownerUid: string, state: string | undefined, resourceVersion: string): void {
    this.#put(network, address, ownerUid, stateOf(state), resourceVersion);
  }

  /** Notes that there is no object for this address. */
  noteFree(network: string, address: Address): void {
    this.#put(network, address, null, "free", "");
  }

  /**
   * Notes addresses that pods of this node report, whoever gave them, and of which nothing is known: they are not
   * given.
   */
  noteReported(network: string, addresses: Iterable<Address>): void {
    const { notes, cooling, published } = this.#known(network);
    for (const address of addresses) {
      const text = formatAddress(address);
      const isUsed = published?.used[address.family].contains(address.value) ?? false;
      if (!isUsed && !notes.has(text) && !cooling.has(text)) this.#put(network, address, null, "allocated", "");
    }
  }

  /** Takes what a controller has published of a network, as just read; an older one than is known is left out. */
  take(network: string, published: PublishedSpace | null): void {
    const known = this.#known(network);
    known.readMs = this.#nowMs;
    if (published === null) return;
    if (known.published !== null && published.observedMs <= known.published.observedMs) return;
    const ageMs = Math.max(0, this.#options.serverMs() - published.observedMs);
    this.#replace(known, published, this.#nowMs - ageMs);
  }

  /** The picture is true now too. */
  confirm(network: string): void {
    const known = this.#known(network);
    known.trueMs = this.#nowMs;
    known.readMs = this.#nowMs;
  }

  /** Reads again what is published, in the hope that it shows what this process has not seen. Throws ApiAway. */
  async renew(network: string, deadlineMs: number): Promise<void> {
    if (this.#nowMs - this.#known(network).readMs < READ_AGAIN_MS) return;
    await this.#reading.run(() => this.#options.read(network, deadlineMs), network);
  }

  /**
   * Makes sure of a picture from which it can be said that a network is full: what is published, else, where no
   * controller does, a list of the network. Returns whether the picture has changed, which it does not twice in a
   * second. Throws ApiAway.
   */
  async makeSure(network: string, deadlineMs: number): Promise<boolean> {
    const known = this.#known(network);
    const { published } = known;
    await this.renew(network, deadlineMs);
    if (this.#isFresh(network)) return known.published !== published;
    // One at a time, and the next not before this one is too old.
    await this.#listing.run(() => this.#list(network, deadlineMs), network);
    return true;
  }

  async #list(network: string, deadlineMs: number): Promise<void> {
    const { api } = this.#options;
    const beganMs = this.#nowMs;
    const prefix = allocationNamePrefix(network);
    let found: ObjectMeta[] = [];
    const answer = await api.list({
      path: ALLOCATIONS_PATH,
      query: { labelSelector: labelSelector(LABEL_NETWORK, network), resourceVersion: "0" },
      metadataOnly: true,
      each: ({ metadata }: { metadata: ObjectMeta }) => {
        // Another network may have the same label.
        if (prefixOfAllocationName(metadata.name) === prefix) found.push(metadata);
      },
      restarted: () => {
        found = [];
      },
      deadlineMs: Math.min(deadlineMs, beganMs + LIST_MS_MAX),
    });
    if (answer.kind === "missing") throw new ApiAway("the server does not know IPAllocations");
    const observedMs = this.#options.serverMs();
    this.#replace(this.#known(network), { ...spaceOf(found, answer.resourceVersion), observedMs }, beganMs);
  }

  #put(network: string, address: Address, owner: string | null, state: State, resourceVersion: string): void {
    const known = this.#known(network);
    const text = formatAddress(address);
    const before = known.notes.get(text);
    const isSameCooldown = before?.state === "cooling" && before.resourceVersion === resourceVersion;
    const seenMs = isSameCooldown ? before.coolingSinceMs : known.cooling.get(text)?.sinceMs;
    const note: Note = { address, owner, state, resourceVersion, coolingSinceMs: seenMs ?? this.#nowMs };
    known.notes.set(text, note);
    known.space.set(storedOf(note), this.#nowMs);
  }

  /** What this process has seen later, or alone can tell, stays beside the new picture. */
  #replace(known: Known, published: PublishedSpace, trueMs: number): void {
    const before = { published: known.published, cooling: known.cooling };
    known.published = published;
    known.trueMs = trueMs;
    known.cooling = new Map(
      published.cooling.map((address) => {
        const text = formatAddress(address);
        const note = known.notes.get(text);
        const notedMs = note?.state === "cooling" ? note.coolingSinceMs : undefined;
        const sinceMs = notedMs ?? before.cooling.get(text)?.sinceMs ?? this.#nowMs;
        return [text, { address, sinceMs }];
      }),
    );
    const stale: Address[] = [];
    for (const [text, note] of known.notes.entries()) {
      const isNewer = note.resourceVersion !== "" && BigInt(note.resourceVersion) > published.version;
      // Who has just let an address cool down may take it back.
      if (isNewer || (note.state === "cooling" && known.cooling.has(text))) continue;
      known.notes.delete(text);
      stale.push(note.address);
    }
    const changed = before.published === null ? null : differences(before.published, published);
    if (changed === null) {
      known.space.forgetPools();
      return;
    }
    for (const address of [...changed, ...stale])
      if (!known.notes.has(formatAddress(address))) known.space.set(storedIn(known, address), this.#nowMs);
  }

  #known(network: string): Known {
    const present = this.#networks.get(network);
    if (present) return present;
    const known: Known = {
      space: new NetworkSpace(this.#networks.size + 1, network, {
        stored: () => storedBeside(known),
        taken: (family) => known.published?.used[family] ?? IntervalSet.EMPTY,
        startSeed: this.#options.startSeed,
      }),
      notes: new Notes(),
      published: null,
      cooling: new Map(),
      trueMs: Number.NEGATIVE_INFINITY,
      readMs: Number.NEGATIVE_INFINITY,
    };
    this.#networks.set(network, known);
    return known;
  }

  get #nowMs(): number {
    return this.#options.api.clock.monotonicMs();
  }
}

function stateOf(state: string | undefined): State {
  return state === "Cooling" ? "cooling" : state === "Retained" ? "retained" : "allocated";
}

function storedOf({ address, state, coolingSinceMs }: Note): StoredAddress {
  return {
    address,
    free: state === "free",
    cooling: state === "cooling",
    retained: state === "retained",
    coolingSinceMs,
  };
}

/** An address that nothing is noted of, as it is published. */
function storedIn({ published, cooling }: Known, address: Address): StoredAddress {
  const { family, value } = address;
  const rest = cooling.get(formatAddress(address));
  const retained = published?.retained[family].contains(value) ?? false;
  const used = published?.used[family].contains(value) ?? false;
  if (rest !== undefined && !used) return { address, cooling: true, coolingSinceMs: rest.sinceMs };
  return { address, cooling: false, retained, free: !used };
}

/** Everything but the addresses that are just allocated according to what is published. */
function* storedBeside(known: Known): Generator<StoredAddress> {
  for (const [text, { address }] of known.cooling) if (!known.notes.has(text)) yield storedIn(known, address);
  for (const family of FAMILIES) {
    for (const value of valuesOf(known.published?.retained[family] ?? IntervalSet.EMPTY))
      yield storedIn(known, { family, value });
  }
  for (const note of known.notes.values()) yield storedOf(note);
}

/** Addresses that are published differently; null: too many. */
function differences(before: PublishedSpace, after: PublishedSpace): Address[] | null {
  const changed = new Map<string, Address>();
  const add = (address: Address) => changed.set(formatAddress(address), address);
  for (const family of FAMILIES) {
    for (const key of ["used", "retained"] as const) {
      const [old, now] = [before[key][family], after[key][family]];
      const different = old.subtract(now).union(now.subtract(old));
      if (different.size > DIFFERENCES_MAX) return null;
      for (const value of valuesOf(different)) add({ family, value });
    }
  }
  for (const address of [...before.cooling, ...after.cooling]) add(address);
  return BigInt(changed.size) > 2n * DIFFERENCES_MAX ? null : [...changed.values()];
}

function* valuesOf(set: IntervalSet): Generator<bigint> {
  for (const { first, last } of set.intervals()) for (let value = first; value <= last; value += 1n) yield value;
}
