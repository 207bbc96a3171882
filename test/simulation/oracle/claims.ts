import { readPlace } from "./allocations.ts";
import { CLAIMS, type PlainChange, type PlainObject, type PlainStore } from "./view.ts";

/** A claim and what it lists. */
export interface Claim {
  /** `namespace/name` */
  readonly key: string;
  readonly uid: string;
  readonly network: string;
  readonly ips: readonly string[];
  readonly places: readonly string[];
  readonly object: PlainObject;
}

/** Every claim with the addresses that it lists, followed write by write. */
export class Claims {
  readonly #store: PlainStore;
  readonly #byKey = new Map<string, Claim>();
  readonly #byPlace = new Map<string, Set<Claim>>();
  /** UID and place of everything that a claim has ever listed. */
  readonly #listedOnce = new Set<string>();

  constructor(store: PlainStore) {
    this.#store = store;
    for (const { key, object } of store.range(CLAIMS, "")) this.#set(key, readClaim(key, object));
  }

  get(key: string): Claim | null {
    return this.#byKey.get(key) ?? null;
  }

  all(): Iterable<Claim> {
    return this.#byKey.values();
  }

  /**
   * Whether it has listed an address once, and does not any more: its VM went to another network, or asked for another
   * one.
   */
  hasLeft({ uid }: Claim, place: string): boolean {
    return this.#listedOnce.has(`${uid} ${place}`);
  }

  /** Those that list an address. */
  listing(place: string): Iterable<Claim> {
    return this.#byPlace.get(place) ?? [];
  }

  /** What it was and what it is; null: there was or is none. */
  note({ key, object, deleted }: PlainChange): {
    readonly before: Claim | null;
    readonly after: Claim | null;
  } {
    const before = this.get(key);
    const after = deleted ? null : readClaim(key, object);
    this.#set(key, after);
    return { before, after };
  }

  /** After a restore: the places of lists that are others now. */
  readAgain(): Set<string> {
    const before = [...this.#byKey.values()];
    for (const { key } of before) this.#set(key, null);
    for (const { key, object } of this.#store.range(CLAIMS, "")) this.#set(key, readClaim(key, object));
    const changed = new Set<string>();
    for (const was of before) {
      const is = this.get(was.key);
      if (is === null || is.uid !== was.uid || is.ips.join() !== was.ips.join())
        for (const place of [...was.places, ...(is?.places ?? [])]) changed.add(place);
    }
    const known = new Set(before.map(({ key }) => key));
    for (const is of this.#byKey.values()) if (!known.has(is.key)) for (const place of is.places) changed.add(place);
    return changed;
  }

  #set(key: string, claim: Claim | null): void {
    const before = this.#byKey.get(key);
    for (const place of before?.places ?? []) {
      const listing = this.#byPlace.get(place);
      if (before) listing?.delete(before);
      if (listing?.size === 0) this.#byPlace.delete(place);
    }
    if (claim === null) {
      this.#byKey.delete(key);
      return;
    }
    this.#byKey.set(key, claim);
    for (const place of claim.places) {
      this.#listedOnce.add(`${claim.uid} ${place}`);
      const listing = this.#byPlace.get(place) ?? new Set();
      listing.add(claim);
      this.#byPlace.set(place, listing);
    }
  }
}

function readClaim(key: string, object: PlainObject): Claim {
  const network = String(object.spec?.network ?? "");
  const ips: string[] = movedTo(network, object) ?? object.status?.ips ?? [];
  const places = ips.flatMap((ip) => readPlace(network, ip) ?? []);
  return { key, uid: object.metadata.uid, network, ips, places, object };
}

/**
 * What a claim says that it has where it follows its VM to, until its list is written (docs/decisions/0067); null:
 * nothing.
 */
function movedTo(network: string, { metadata }: PlainObject): string[] | null {
  const [, , , to, ips] = (metadata.annotations?.["ipam.holdfast.dev/followed"] ?? "").split(" ");
  return to === network && ips ? ips.split(",") : null;
}
