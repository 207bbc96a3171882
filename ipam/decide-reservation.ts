import { type AddressQuestion, assignRequests, type Slot, slotOf } from "./decide-addresses.ts";
import { type Refusal, refuse } from "./refusals.ts";
import { type Family, sameAddress } from "./space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "./space/cidr.ts";

/** The addresses that an owner requests on a network: these very ones, or a number of each family. */
export type AddressRequest =
  | { readonly kind: "addresses"; readonly addresses: readonly InterfaceAddress[] }
  | { readonly kind: "count"; readonly perFamily: Readonly<Partial<Record<Family, number>>> };

export type ReservationQuestion = Omit<AddressQuestion, "requested"> & { readonly request: AddressRequest };

export type ReservationDecision =
  /** The owner keeps what it holds; each slot adds one address. */
  | { readonly kind: "reserve"; readonly kept: readonly InterfaceAddress[]; readonly slots: readonly Slot[] }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

const FAMILIES = [4, 6] as const;

/**
 * The addresses for an owner without attachments. What it already holds counts towards the request, so a repeat gets
 * nothing more and an unfinished attempt is completed. Its own cooling addresses are tried first. All or nothing.
 */
export function decideReservation(question: ReservationQuestion): ReservationDecision {
  const { definition, request, held } = question;
  if (definition.rangeSets.length === 0)
    return { kind: "refuse", refusal: refuse("NETWORK_UNDEFINED", { network: definition.name }) };
  const kept = held.filter(({ state }) => state === "bound");
  const slots =
    request.kind === "addresses"
      ? slotsOfAddresses(question, request.addresses, kept)
      : slotsOfCounts(question, request.perFamily, kept);
  if ("code" in slots) return { kind: "refuse", refusal: slots };
  return {
    kind: "reserve",
    kept: kept.map(({ address, prefixLength }) => ({ address, prefixLength })),
    slots,
  };
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
  // Each cooling address is tried by one slot only.
  let resting = restOf(question).held;
  for (const family of FAMILIES) {
    const had = kept.filter(({ address }) => address.family === family).length;
    for (let missing = (perFamily[family] ?? 0) - had; missing > 0; missing -= 1) {
      const slot = nextSlot({ ...question, held: resting }, family, slots);
      if ("code" in slot) return slot;
      slots.push(slot);
      const { usable } = poolAt(question, slot.rangeSetIndex).rangeSet;
      const tried = resting.find(
        ({ address }) => address.family === family && usable.contains(address.value),
      );
      resting = resting.filter((one) => one !== tried);
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

/** The question without the addresses that the owner keeps: only its cooling ones can be reserved. */
function restOf(question: ReservationQuestion): ReservationQuestion {
  return { ...question, held: question.held.filter(({ state }) => state === "cooling") };
}

function poolAt({ pools }: ReservationQuestion, index: number) {
  const pool = pools[index];
  if (pool === undefined) throw new Error("one pool per range set is needed");
  return pool;
}
