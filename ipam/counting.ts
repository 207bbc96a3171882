import type { NetworkDefinition } from "./definition/network-definition.ts";
import { sameAddress } from "./space/address.ts";
import type { InterfaceAddress } from "./space/cidr.ts";
import { firstOfEachSet, placeOf } from "./space/range-set.ts";

/**
 * What counts of what a claim has, for the nodes and for the controller: of each subnet what its VM runs with, else the
 * first listed, else the first. What lies in no subnet any more counts as well, unless the VM runs with another of its
 * family, which it asked for, and not with this one. In the order of the list.
 */
export function countingOf<T extends InterfaceAddress>(
  { rangeSets }: Pick<NetworkDefinition, "rangeSets">,
  own: readonly T[],
  listed: readonly InterfaceAddress[],
  isUsed: (one: T) => boolean,
): { readonly counts: readonly T[]; readonly besides: readonly T[] } {
  const positionOf = ({ address }: InterfaceAddress) => {
    const at = listed.findIndex((one) => sameAddress(one.address, address));
    return at < 0 ? listed.length : at;
  };
  const inOrder = own.toSorted((a, b) => positionOf(a) - positionOf(b) || (a.address.value < b.address.value ? -1 : 1));
  const used = inOrder.filter(isUsed);
  const first = firstOfEachSet(rangeSets, [...used, ...inOrder]);
  const counts = inOrder.filter((one) => {
    if (placeOf(rangeSets, one.address) !== null) return first.includes(one);
    return used.includes(one) || !used.some(({ address }) => address.family === one.address.family);
  });
  return { counts, besides: inOrder.filter((one) => !counts.includes(one)) };
}
