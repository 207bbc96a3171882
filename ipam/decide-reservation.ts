import { type AddressQuestion, assignRequests, type Slot, slotOf } from "./decide-addresses.ts";
import { type Refusal, refuse } from "./refusals.ts";
import { type Family, sameAddress } from "./space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "./space/cidr.ts";

/** What an owner wants to hold on a network: these very addresses, or so many of each family. */
export type Wish =
  | { readonly kind: "addresses"; readonly addresses: readonly InterfaceAddress[] }
  | { readonly kind: "count"; readonly perFamily: Readonly<Partial<Record<Family, number>>> };

export type ReservationQuestion = Omit<AddressQuestion, "requested"> & { readonly wish: Wish };

export type ReservationDecision =
  /** What the owner holds already stays; one address more for each slot. */
  | { readonly kind: "reserve"; readonly kept: readonly InterfaceAddress[]; readonly slots: readonly Slot[] }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

const FAMILIES = [4, 6] as const;

/**
 * What an owner that nothing is attached for is given. What it holds counts towards its wish, so that a repeat is given
 * nothing, and what an attempt has left unfinished is finished. Its own that rests is tried first. All or nothing.
 */
export function decideReservation(question: ReservationQuestion): ReservationDecision {
  const { definition, wish, held } = question;
  if (definition.rangeSets.length === 0)
    return { kind: "refuse", refusal: refuse("NETWORK_UNDEFINED", { network: definition.name }) };
  const kept = held.filter(({ state }) => state === "bound");
  const slots =
    wish.kind === "addresses"
      ? slotsOfAddresses(question, wish.addresses, kept)
      : slotsOfCounts(question, wish.perFamily, kept);
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
      requested: [{ ...one, source: `the wish for ${formatInterfaceAddress(one)}` }],
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
  // One that rests is tried by one slot only.
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

/** One address more of a family, from the range set that has given the fewest and has one left. */
function nextSlot(question: ReservationQuestion, family: Family, slots: readonly Slot[]): Slot | Refusal {
  const { definition } = question;
  const given = (index: number) => slots.filter(({ rangeSetIndex }) => rangeSetIndex === index).length;
  const indexes = definition.rangeSets
    .flatMap((set, index) => (set.family === family ? [index] : []))
    .toSorted((a, b) => given(a) - given(b));
  let refusal: Refusal = refuse("CONFIG_INVALID", {
    key: `the wish for IPv${family} addresses`,
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

/** Without what the owner keeps: only what rests is to be had. */
function restOf(question: ReservationQuestion): ReservationQuestion {
  return { ...question, held: question.held.filter(({ state }) => state === "cooling") };
}

function poolAt({ pools }: ReservationQuestion, index: number) {
  const pool = pools[index];
  if (pool === undefined) throw new Error("one pool per range set is needed");
  return pool;
}
