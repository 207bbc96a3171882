import type { FormerPart } from "./claim-conditions.ts";
import type { NetworkDefinition } from "./definition/network-definition.ts";
import { type Address, sameAddress } from "./space/address.ts";
import type { InterfaceAddress } from "./space/cidr.ts";
import { placeOf, type RangeSet } from "./space/range-set.ts";

/** An address of a holder; `gateway`: the one that was answered with it, null: none; absent: not known. */
export type HeldState = InterfaceAddress & { readonly gateway?: Address | null };

/**
 * How a holder stays behind a definition that was changed: an address in none of its subnets or not usable there, a
 * prefix length that is not its subnet's, no address of a family, another gateway. Empty: it has what the definition
 * gives.
 */
export function formerParts(
  { rangeSets }: Pick<NetworkDefinition, "rangeSets">,
  held: readonly HeldState[],
): FormerPart[] {
  if (rangeSets.length === 0 || held.length === 0) return [];
  const parts = new Set<FormerPart>();
  for (const one of held) {
    const subnet = placeOf(rangeSets, one.address)?.subnet;
    if (subnet === undefined || !subnet.usable.contains(one.address.value)) {
      parts.add("outside");
      continue;
    }
    if (subnet.cidr.prefixLength !== one.prefixLength) parts.add("prefix-length");
    if (one.gateway !== undefined && !isSameGateway(one.gateway, subnet.gateway)) parts.add("gateway");
  }
  if (missingSets(rangeSets, held).length > 0) parts.add("family");
  return [...parts];
}

/** The prefix length of an address in its network now: its subnet's, if that could give it; else its own. */
export function presentPrefixLength(
  { rangeSets }: Pick<NetworkDefinition, "rangeSets">,
  { address, prefixLength }: InterfaceAddress,
): number {
  const subnet = placeOf(rangeSets, address)?.subnet;
  return subnet?.usable.contains(address.value) ? subnet.cidr.prefixLength : prefixLength;
}

/**
 * The range sets of families that a holder has no address of. Of a family that it has, another subnet adds nothing:
 * which of its addresses stands for which subnet cannot be told once ranges have moved.
 */
export function missingSets(rangeSets: readonly RangeSet[], held: readonly InterfaceAddress[]): number[] {
  const families = new Set(held.map(({ address }) => address.family));
  return rangeSets.flatMap(({ family }, index) => (families.has(family) ? [] : [index]));
}

function isSameGateway(one: Address | null, other: Address | null): boolean {
  return one === null || other === null ? one === other : sameAddress(one, other);
}
