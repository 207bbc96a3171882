import { readAddress } from "./address.ts";
import { ALLOCATIONS, type PlainChange, type PlainObject, type PlainStore } from "./view.ts";

/** Whom an address is recorded for. */
export interface Owner {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly interface: string;
  readonly cluster: string;
}

/** What the API says of one address of one network. */
export interface Held {
  readonly name: string;
  readonly network: string;
  readonly place: string;
  readonly address: string;
  readonly owner: Owner;
  readonly isBound: boolean;
  readonly isRetained: boolean;
  readonly isCooling: boolean;
  readonly object: PlainObject;
  /** Since when it is in this state for this owner, ms of the world. */
  readonly sinceMs: number;
}

/** A container's interface that uses an address. */
interface Attached {
  readonly containerId: string;
  readonly ifname: string;
  readonly node: string;
}

export function attachmentsOf({ object }: Held): Attached[] {
  return Object.entries<PlainObject>(object.status?.attachments ?? {}).map(([key, { node }]) => {
    const [containerId = "", ifname = ""] = key.split("/");
    return { containerId, ifname, node };
  });
}

/** One address of one network. */
const placeOf = (network: string, key: string): string => `${network} ${key}`;

/** The place of an address in a text; null: it is no address. */
export function readPlace(network: string, text: string): string | null {
  const address = readAddress(text);
  return address === null ? null : placeOf(network, address.key);
}

/** What the API says of every address, followed write by write. */
export class Allocations {
  readonly #store: PlainStore;
  readonly #nowMs: () => number;
  readonly #byName = new Map<string, Held>();
  readonly #byPlace = new Map<string, Held>();

  constructor(store: PlainStore, nowMs: () => number) {
    this.#store = store;
    this.#nowMs = nowMs;
    for (const { object } of store.range(ALLOCATIONS, "")) this.#put(object);
  }

  at(place: string): Held | null {
    return this.#byPlace.get(place) ?? null;
  }

  all(): Iterable<Held> {
    return this.#byName.values();
  }

  /** What a claim has, by its UID. */
  ofClaim(uid: string): Held[] {
    return [...this.#byName.values()].filter(
      ({ isBound, owner }) => isBound && owner.kind === "IPAMClaim" && owner.uid === uid,
    );
  }

  /** What was there before the last write of the place. */
  before: Held | null = null;

  /** Returns the place that it is about; null: nothing that can be read. */
  note({ object, deleted }: PlainChange): string | null {
    this.before = this.#byName.get(object.metadata.name) ?? null;
    if (!deleted) return this.#put(object);
    return this.#drop(object.metadata.name);
  }

  /** After a restore: the places about which the API says something else now. */
  readAgain(): Set<string> {
    const before = new Map(this.#byName);
    this.#byName.clear();
    this.#byPlace.clear();
    for (const { object } of this.#store.range(ALLOCATIONS, "")) {
      const known = before.get(object.metadata.name);
      if (known !== undefined) this.#byName.set(known.name, known);
      this.#put(object);
    }
    const changed = new Set<string>();
    for (const [name, held] of before) if (!isSame(held, this.#byName.get(name))) changed.add(held.place);
    for (const [name, held] of this.#byName) if (!isSame(held, before.get(name))) changed.add(held.place);
    return changed;
  }

  #put(object: PlainObject): string | null {
    const { name } = object.metadata;
    const { network, address, owner } = object.spec ?? {};
    const place = typeof network === "string" ? readPlace(network, String(address)) : null;
    if (place === null) return this.#drop(name);
    const state = object.status?.state;
    const next: Held = {
      name,
      network,
      place,
      address,
      owner: {
        kind: owner?.kind ?? "",
        namespace: owner?.namespace ?? "",
        name: owner?.name ?? "",
        uid: owner?.uid ?? "",
        interface: owner?.interface ?? "",
        cluster: owner?.cluster ?? "",
      },
      isBound: state === "Bound",
      isRetained: state === "Retained",
      isCooling: state === "Cooling",
      object,
      sinceMs: this.#nowMs(),
    };
    const known = this.#byName.get(name);
    const held = known !== undefined && isSame(known, next) ? { ...next, sinceMs: known.sinceMs } : next;
    this.#byName.set(name, held);
    this.#byPlace.set(place, held);
    return place;
  }

  #drop(name: string): string | null {
    const known = this.#byName.get(name);
    if (known === undefined) return null;
    this.#byName.delete(name);
    if (this.#byPlace.get(known.place)?.name === name) this.#byPlace.delete(known.place);
    return known.place;
  }
}

/** The same owner, in the same state. */
function isSame(a: Held, b: Held | undefined): boolean {
  return (
    b !== undefined &&
    a.place === b.place &&
    a.isBound === b.isBound &&
    a.isRetained === b.isRetained &&
    a.isCooling === b.isCooling &&
    a.owner.kind === b.owner.kind &&
    a.owner.uid === b.owner.uid &&
    a.owner.interface === b.owner.interface
  );
}

/** `claim red/vm-1`, `pod red/web (net1)`. */
export function describeOwner({ kind, namespace, name, interface: ifname }: Owner): string {
  const what = kind === "IPAMClaim" ? "claim" : kind === "Pod" ? "pod" : kind;
  return `${what} ${namespace}/${name}${ifname === "" ? "" : ` (${ifname})`}`;
}
