/*
 * test/simulation/oracle/claims/: what claims have, and what is said of it
 *
 *   claims         every claim as it is written: what it lists is an index of what it has, and nothing rests on it
 *   wants          where the VM of a claim is to be, and what it asks for
 *   answers        what a claim's users were answered stays the claim's
 *   reservations   what is reserved for a claim that nobody attaches
 *   writes         what the product itself writes into claims
 *   asked          a VM that asked and was answered has what it asked for
 *   at-rest        at rest: claims say what they have, and name their pods; each address has its reason
 */

import { readAddress } from "../address.ts";
import { readPlace } from "../allocations.ts";
import { CLAIMS, type PlainChange, type PlainObject, type PlainStore } from "../view.ts";

/** A claim as it is written. What it has is in the allocations, by its UID. */
export interface Claim {
  /** `namespace/name` */
  readonly key: string;
  readonly uid: string;
  readonly network: string;
  readonly ips: readonly string[];
  readonly object: PlainObject;
}

/** Every claim, followed write by write. */
export class Claims {
  readonly #store: PlainStore;
  readonly #byKey = new Map<string, Claim>();
  /** UID and address of everything that a claim has ever listed. */
  readonly #listedOnce = new Set<string>();
  /** UIDs of those that were so full once that nothing could be added. */
  readonly #wasFull = new Set<string>();

  constructor(store: PlainStore) {
    this.#store = store;
    this.readAgain();
  }

  get(key: string): Claim | null {
    return this.#byKey.get(key) ?? null;
  }

  all(): Iterable<Claim> {
    return this.#byKey.values();
  }

  /** Whether it has listed an address once, or had no room for it. */
  hasListed({ uid }: Claim, ip: string): boolean {
    return this.#wasFull.has(uid) || this.#listedOnce.has(`${uid} ${readAddress(ip)?.key}`);
  }

  /** Those that are on the network of an address, and list it. */
  listing(place: string): Claim[] {
    return [...this.#byKey.values()].filter(({ network, ips }) => ips.some((ip) => readPlace(network, ip) === place));
  }

  note({ key, object, deleted }: PlainChange): void {
    if (deleted) this.#byKey.delete(key);
    else this.#put(key, object);
  }

  /** After a restore. */
  readAgain(): void {
    this.#byKey.clear();
    for (const { key, object } of this.#store.range(CLAIMS, "")) this.#put(key, object);
  }

  #put(key: string, object: PlainObject): void {
    const { uid } = object.metadata;
    const ips = listOf(object);
    this.#byKey.set(key, { key, uid, network: String(object.spec?.network ?? ""), ips, object });
    if (ips.length >= LIST_MAX) this.#wasFull.add(uid);
    for (const ip of ips) this.#listedOnce.add(`${uid} ${readAddress(ip)?.key}`);
  }
}

/** More entries no claim gets. */
export const LIST_MAX = 16;

export function listOf(object: PlainObject): string[] {
  return (object?.status?.ips ?? []).map(String);
}
