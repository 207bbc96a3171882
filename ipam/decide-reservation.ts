import { type AddressQuestion, assignRequests, type HeldAddress, type Slot, slotOf } from "./decide-addresses.ts";
import type { NetworkDefinition } from "./definition/network-definition.ts";
import type { RequestedAddress } from "./definition/requested-address.ts";
import { type Refusal, refuse } from "./refusals.ts";
import { type Address, compareAddresses, type Family, sameAddress } from "./space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "./space/cidr.ts";
import { IntervalSet } from "./space/interval-set.ts";
import { describeIntervals, narrowedRangeSet } from "./space/range-set.ts";

export type AddressRequest =
  | { readonly kind: "addresses"; readonly addresses: readonly InterfaceAddress[] }
  /** A number of each family. */
  | { readonly kind: "count"; readonly perFamily: Readonly<Partial<Record<Family, number>>> }
  | SingleAddress;

/** One address in all, of a part of the network. */
interface SingleAddress {
  readonly kind: "single";
  readonly family: Family;
  /** May be given, reserved ones included. What the owner was given before may lie outside, what it brought may not. */
  readonly within: IntervalSet;
  /** Those of them that are given without a request. */
  readonly automatic: IntervalSet;
  /** The only one that will do, unless the owner has one already; it may be cooling down. null: any. */
  readonly requested: RequestedAddress | null;
  /** Of several that the owner has already, the one to be kept; default: the lowest. */
  readonly preferred?: Address | undefined;
}

export type ReservationQuestion = Omit<AddressQuestion, "requested"> & { readonly request: AddressRequest };

export type ReservationDecision =
  /** The owner keeps what it holds; each slot adds one address. */
  | { readonly kind: "reserve"; readonly kept: readonly InterfaceAddress[]; readonly slots: readonly Slot[] }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

const FAMILIES = [4, 6] as const;

/** The definition that a request is decided by: of a single address, that part of the network alone. */
export function definitionFor(definition: NetworkDefinition, request: AddressRequest): NetworkDefinition {
  if (request.kind !== "single") return definition;
  // What is reserved for a MAC is nobody else's, also where a pool gives what its network only gives on request.
  const reserved = definition.reservations?.values(request.family) ?? IntervalSet.EMPTY;
  const automatic = request.automatic.subtract(reserved);
  const rangeSet = narrowedRangeSet(definition.rangeSets, request.family, { ...request, automatic });
  return {
    ...definition,
    rangeSets: rangeSet === null ? [] : [rangeSet],
    fingerprint: `${definition.fingerprint} ${rangeSet?.fingerprint}`,
  };
}

/**
 * The addresses for an owner without attachments. What it already holds counts towards the request, so a repeat gets
 * nothing more and an unfinished attempt is completed. Its own cooling addresses, and those of an owner that it
 * succeeds, are tried first. All or nothing. `definition` and `pools` are those of `definitionFor`.
 */
export function decideReservation(question: ReservationQuestion): ReservationDecision {
  const { definition, request, held } = question;
  if (definition.rangeSets.length === 0)
    return { kind: "refuse", refusal: refuse("NETWORK_UNDEFINED", { network: definition.name }) };
  const own = held.filter(({ state, former }) => state === "bound" && !former);
  const kept = request.kind === "single" ? oneOf(own, request) : own;
  const slots = slotsOf(question, kept);
  if ("code" in slots) return { kind: "refuse", refusal: slots };
  return {
    kind: "reserve",
    kept: kept.map(({ address, prefixLength }) => ({ address, prefixLength })),
    slots,
  };
}

function slotsOf(question: ReservationQuestion, kept: readonly InterfaceAddress[]): Slot[] | Refusal {
  const { request } = question;
  switch (request.kind) {
    case "addresses":
      return slotsOfAddresses(question, request.addresses, kept);
    case "count":
      return slotsOfCounts(question, request.perFamily, kept);
    case "single":
      return kept.length > 0 ? [] : slotOfSingle(question, request);
  }
}

/** Of several that a race has left, every attempt names the same one: if possible the one that was told already. */
function oneOf(own: readonly HeldAddress[], { family, within, preferred }: SingleAddress): readonly HeldAddress[] {
  const rank = ({ address }: HeldAddress) => (preferred !== undefined && sameAddress(address, preferred) ? 0 : 1);
  return own
    .filter(({ address }) => address.family === family)
    .filter(({ address, adopted }) => !adopted || within.contains(address.value))
    .sort((a, b) => rank(a) - rank(b) || compareAddresses(a.address, b.address))
    .slice(0, 1);
}

function slotOfSingle(question: ReservationQuestion, request: SingleAddress): Slot[] | Refusal {
  const { requested, within, family } = request;
  const { name: network } = question.definition;
  const address = requested?.address;
  if (address !== undefined && (address.family !== family || !within.contains(address.value)))
    return refuse("ADDRESS_OUTSIDE", { address, network, subnets: describeIntervals(within, family) });
  const asked: AddressQuestion = {
    ...restOf(question),
    requested: requested === null ? [] : [requested],
    mayReturn: (_, state) => state === "cooling",
  };
  const placed = assignRequests(asked);
  if ("code" in placed) return placed;
  const slot = slotOf(asked, poolAt(question, 0), 0, requested);
  return "code" in slot ? slot : [slot];
}

function slotsOfAddresses(
  question: ReservationQuestion,
  addresses: readonly InterfaceAddress[],
  kept: readonly InterfaceAddress[],
): Slot[] | Refusal {
  const slots: Slot[] = [];
  for (const one of addresses) {
    if (kept.some(({ address }) => sameAddress(address, one.address))) continue;
    const asked = {
      ...restOf(question),
      requested: [{ ...one, source: `the request for ${formatInterfaceAddress(one)}` }],
    };
    const placed = assignRequests(asked);
    if ("code" in placed) return placed;
    for (const [index, request] of placed) {
      const slot = slotOf(asked, poolAt(question, index), index, request);
      if ("code" in slot) return slot;
      slots.push(slot);
    }
  }
  return slots;
}

function slotsOfCounts(
  question: ReservationQuestion,
  perFamily: Readonly<Partial<Record<Family, number>>>,
  kept: readonly InterfaceAddress[],
): Slot[] | Refusal {
  const slots: Slot[] = [];
  // Each address of its own is tried by one slot only.
  let remaining = restOf(question).held;
  for (const family of FAMILIES) {
    const had = kept.filter(({ address }) => address.family === family).length;
    for (let missing = (perFamily[family] ?? 0) - had; missing > 0; missing -= 1) {
      const slot = nextSlot({ ...question, held: remaining }, family, slots);
      if ("code" in slot) return slot;
      slots.push(slot);
      const { usable } = poolAt(question, slot.rangeSetIndex).rangeSet;
      const tried = remaining.find(({ address }) => address.family === family && usable.contains(address.value));
      remaining = remaining.filter((one) => one !== tried);
    }
  }
  return slots;
}

/** One more address of a family, from the range set that has given the fewest and still has one. */
function nextSlot(question: ReservationQuestion, family: Family, slots: readonly Slot[]): Slot | Refusal {
  const { definition } = question;
  const given = (index: number) => slots.filter(({ rangeSetIndex }) => rangeSetIndex === index).length;
  const indexes = definition.rangeSets
    .flatMap((set, index) => (set.family === family ? [index] : []))
    .toSorted((a, b) => given(a) - given(b));
  let refusal: Refusal = refuse("CONFIG_INVALID", {
    key: `the request for IPv${family} addresses`,
    value: "unfulfilled",
    remedy: `network ${definition.name} has no IPv${family} range; give it one, or ask for none`,
  });
  for (const index of indexes) {
    const slot = slotOf({ ...question, requested: [] }, poolAt(question, index), index, null);
    if (!("code" in slot)) return slot;
    refusal = slot;
  }
  return refusal;
}

/** Without what the owner keeps: its cooling addresses first, then those taken over, Bound ones before cooling ones. */
function restOf(question: ReservationQuestion): ReservationQuestion {
  const rank = ({ state, former }: HeldAddress) => (former ? (state === "bound" ? 1 : 2) : 0);
  const held = question.held.filter(({ state, former }) => state === "cooling" || former);
  return { ...question, held: held.toSorted((a, b) => rank(a) - rank(b)) };
}

function poolAt({ pools }: ReservationQuestion, index: number) {
  const pool = pools[index];
  if (pool === undefined) throw new Error("one pool per range set is needed");
  return pool;
}
