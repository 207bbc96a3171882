import type { AllocationClient, AllocationReading } from "../../allocations/allocation-client.ts";
import { type Holder, mayReturn, sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { hold, tooManyWriters } from "../../allocations/hold.ts";
import { succeedsHolder } from "../../allocations/owners.ts";
import type { Picture } from "../../allocations/picture.ts";
import { poolFull, type Slot } from "../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Refusal, RefusalError } from "../../ipam/refusals.ts";
import type { Address } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { hasCooledDown } from "../../ipam/space/cooldown.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { attachmentKey, attachmentsIn } from "../../kube/objects.ts";
import { type Clock, parseTime } from "../../platform/time.ts";

/** Lost candidates after which the search goes on elsewhere: another node is searching here too. */
const CONFLICTS_TO_LEAVE = 2;
/** Lost candidates after which the picture is made sure of. */
const CONFLICTS_TO_MAKE_SURE = 64;

export interface Reservation {
  readonly clock: Clock;
  readonly client: AllocationClient;
  readonly picture: Picture;
  readonly definition: NetworkDefinition;
  readonly pools: readonly Pool[];
  readonly holder: Holder;
  readonly deadlineMs: number;
  /** There is one slot only: an address that turns out to be the holder's already is its result. */
  readonly mayBeOwn?: boolean;
  /** Makes durable what is about to be tried or may already be reserved. */
  announce(addresses: readonly InterfaceAddress[]): Promise<void>;
  learned?(object: AllocationReading["object"]): void;
  wrote?(object: AllocationReading["object"]): void;
}

/** The outcome of a reservation; the `reserved` addresses of a refused one must be released. */
export type SlotsOutcome =
  | {
      readonly kind: "reserved";
      /** As their allocations have them. */
      readonly addresses: readonly InterfaceAddress[];
      /** One of them was not the owner's before. */
      readonly isNew: boolean;
    }
  | { readonly kind: "refused"; readonly refusal: Refusal; readonly reserved: readonly InterfaceAddress[] };

/** All slots at once. Throws ApiAway when an outcome is unknown: then everything announced may be reserved. */
export async function reserve(reservation: Reservation, slots: readonly Slot[]): Promise<SlotsOutcome> {
  const searches = slots.map((slot) => new Search(reservation, slot));
  const tried: InterfaceAddress[] = [];
  for (const search of searches) if (search.next()) tried.push(search.present);
  try {
    await reservation.announce(tried);
  } catch (error) {
    for (const search of searches) search.leave();
    throw error;
  }
  // An address that certainly belongs to another owner was not reserved, and is not to be released.
  const announceInstead = (lost: InterfaceAddress, next: InterfaceAddress) => {
    tried.splice(tried.indexOf(lost), 1, next);
    return reservation.announce(tried);
  };
  const results = await Promise.allSettled(searches.map((search) => search.run(announceInstead)));
  const addresses: InterfaceAddress[] = [];
  let refusal: Refusal | null = null;
  for (const result of results) {
    if (result.status === "fulfilled") addresses.push(result.value);
    else if (result.reason instanceof RefusalError) refusal ??= result.reason.refusal;
    else throw result.reason;
  }
  if (refusal !== null) return { kind: "refused", refusal, reserved: addresses };
  return { kind: "reserved", addresses, isNew: searches.some((search) => search.isNew) };
}

class Search {
  readonly #reservation: Reservation;
  readonly #pool: Pool;
  readonly #moveCursor: boolean;
  readonly #isRequested: boolean;
  #candidates: Iterator<bigint>;
  #present: InterfaceAddress | null = null;
  #unmark: () => void = () => {};
  #cooling = false;
  #exists = false;
  /** What was taken was not the holder's before. */
  isNew = false;

  constructor(reservation: Reservation, slot: Slot) {
    this.#reservation = reservation;
    this.#pool = reservation.pools[slot.rangeSetIndex] as Pool;
    this.#moveCursor = slot.moveCursor;
    this.#isRequested = slot.isRequested;
    this.#candidates = slot.candidates[Symbol.iterator]();
  }

  get present(): InterfaceAddress {
    if (this.#present === null) throw new Error("no candidate is being tried");
    return this.#present;
  }

  /** Goes to the next candidate and marks it as taken here, so that no other ADD of this node tries it. */
  next(): boolean {
    const { value, done } = this.#candidates.next();
    if (done) {
      this.#present = null;
      return false;
    }
    const nowMs = this.#reservation.clock.monotonicMs();
    const address: Address = { family: this.#pool.rangeSet.family, value };
    const prefixLength = this.#pool.subnetOf(value)?.cidr.prefixLength;
    if (prefixLength === undefined) throw new Error(`candidate ${value} is in no subnet`);
    const state = this.#pool.stateOf(value, nowMs);
    this.#cooling = state === "cooling";
    this.#exists = state !== "free";
    this.#unmark = this.#reservation.picture
      .space(this.#reservation.definition.name)
      .allocate(address, this.#moveCursor);
    this.#present = { address, prefixLength };
    return true;
  }

  async run(
    announceInstead: (lost: InterfaceAddress, next: InterfaceAddress) => Promise<void>,
  ): Promise<InterfaceAddress> {
    let lost: InterfaceAddress | null = null;
    for (let conflicts = 1; this.#present !== null; conflicts += 1) {
      if (lost !== null) await this.#announce(lost, announceInstead);
      try {
        const taken = await this.#take(this.#present);
        if (taken !== null) return taken;
      } catch (error) {
        this.#abandon(this.#present, error);
        throw error;
      }
      lost = this.#present;
      await this.#noteConflict(conflicts);
      this.next();
    }
    throw new RefusalError(poolFull(this.#pool, this.#reservation.definition.name));
  }

  /** Of a candidate that will not be tried: other ADDs may try it. */
  leave(): void {
    this.#unmark();
    this.#unmark = () => {};
  }

  /** Whoever else searches here finds the same addresses free, so the next one is tried elsewhere. */
  async #noteConflict(conflicts: number): Promise<void> {
    const { picture, definition, deadlineMs, holder, clock } = this.#reservation;
    if (this.#isRequested) return;
    const { name } = definition;
    if (conflicts === 1) void picture.renew(name, deadlineMs).catch(() => {});
    if (conflicts === CONFLICTS_TO_MAKE_SURE) await picture.makeSure(name, deadlineMs);
    if (conflicts < CONFLICTS_TO_LEAVE) return;
    // Two nodes that serve one claim go on at the same place.
    const startAt = this.#pool.hashStart(`${name} ${holder.owner.uid} ${conflicts}`);
    this.#candidates = this.#pool.candidates(clock.monotonicMs(), startAt);
  }

  async #announce(
    lost: InterfaceAddress,
    announceInstead: (lost: InterfaceAddress, next: InterfaceAddress) => Promise<void>,
  ): Promise<void> {
    try {
      await announceInstead(lost, this.present);
    } catch (error) {
      this.leave();
      throw error;
    }
  }

  /** null: another owner has it. */
  async #take(one: InterfaceAddress): Promise<InterfaceAddress | null> {
    const { client, definition, holder, deadlineMs, mayBeOwn = false } = this.#reservation;
    const outcome = await hold<AllocationReading>(client, {
      network: definition.name,
      one,
      holder,
      deadlineMs,
      // There certainly is an object: reading it first saves a refused create.
      believed: this.#exists ? undefined : null,
      whyNot: (reading) => (reading === null || this.#mayHave(reading, one) ? null : reading),
      relationOf: ({ spec }) => {
        if (sameAllocationOwner(spec.owner, holder.owner)) return "own";
        return succeedsHolder(holder.owner, spec.owner) ? "passes-over" : "other";
      },
      replaced: (object) => formerKeys(object, holder),
    });
    switch (outcome.kind) {
      case "held":
        this.#note(one, outcome.object);
        this.#reservation.wrote?.(outcome.object);
        this.isNew = outcome.was !== "bound";
        return parseInterfaceAddress(outcome.object.spec.address);
      case "own":
        if (mayBeOwn) this.#note(one, outcome.object);
        // Else another slot of the same owner has it.
        else this.#lose(one, outcome.object);
        return mayBeOwn ? one : null;
      case "taken":
        this.#lose(one, outcome.object);
        return null;
      case "left":
        this.#lose(one, outcome.why.object);
        return null;
      case "changed":
        throw tooManyWriters(definition.name, one.address);
    }
  }

  #note({ address }: InterfaceAddress, object: AllocationReading["object"]): void {
    const { picture, definition, holder, learned } = this.#reservation;
    picture.note(definition.name, address, holder.owner.uid, "Bound", object.metadata.resourceVersion);
    learned?.(object);
  }

  /** Whether the cool-down of an address is over for this holder. */
  #mayHave({ object, serverMs }: AllocationReading, one: InterfaceAddress): boolean {
    const { holder, definition, picture } = this.#reservation;
    if (object.status?.state !== "Cooling") return true;
    // It is deleted as soon as its finalizers are gone; then its name is free.
    if (object.metadata.deletionTimestamp !== undefined) return false;
    const sinceMs = parseTime(object.status.since ?? "");
    // By the server's clock, or by having seen it for so long: clocks of nodes prove nothing.
    const cooled =
      (serverMs !== null && hasCooledDown(definition, serverMs - sinceMs)) ||
      hasCooledDown(definition, picture.cooldownSeenMs(definition.name, one.address, object.metadata.resourceVersion));
    const { owner } = object.spec;
    return (
      cooled ||
      this.#cooling ||
      (this.#isRequested && mayReturn(object, holder.owner)) ||
      sameAllocationOwner(owner, holder.owner) ||
      succeedsHolder(holder.owner, owner)
    );
  }

  /** Marked as its owner's: else it would be free for every ADD that knows the allocation from a watch. */
  #lose({ address }: InterfaceAddress, object: AllocationReading["object"]): void {
    const { spec, status, metadata } = object;
    const { picture, definition, learned } = this.#reservation;
    learned?.(object);
    const cooling = status?.state === "Cooling";
    if (cooling && this.#pool.stateOf(address.value) === "allocated") this.#unmark();
    picture.note(definition.name, address, spec.owner.uid, status?.state, metadata.resourceVersion);
  }

  /** What may have been reserved counts as the holder's until the truth is known. */
  #abandon({ address }: InterfaceAddress, error: unknown): void {
    const { picture, definition, holder } = this.#reservation;
    if (error instanceof RefusalError) this.#unmark();
    else picture.note(definition.name, address, holder.owner.uid, "Bound", "");
  }
}

/** Attachments that an earlier attempt for the same interface of the pod left behind. */
export function formerKeys(object: AllocationReading["object"], { attachment }: Pick<Holder, "attachment">): string[] {
  if (!attachment?.pod) return [];
  const { pod, interface: interfaceName, containerID } = attachment;
  return attachmentsIn(object)
    .filter(
      (other) => other.pod?.uid === pod.uid && other.interface === interfaceName && other.containerID !== containerID,
    )
    .map((other) => attachmentKey(other.containerID, interfaceName));
}
