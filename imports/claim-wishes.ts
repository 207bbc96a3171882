import type { Holder } from "../allocations/allocation-object.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Address } from "../ipam/space/address.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import { firstOfEachSet, placeOf } from "../ipam/space/range-set.ts";
import { type ClaimView, listedAddresses } from "../kube/views/claim-view.ts";

/**
 * What a claim is to get of what it lists: of each subnet of its network where it has nothing the first that lies in
 * it, if an ADD could give it, with the subnet's prefix length. Whoever wrote it, a list is a wish
 * (docs/decisions/0093).
 */
export function wishesOf(
  claim: Pick<ClaimView, "ips">,
  { rangeSets, reservations }: NetworkDefinition,
  had: readonly Address[] = [],
): InterfaceAddress[] {
  const taken = new Set(had.flatMap((address) => placeOf(rangeSets, address)?.index ?? []));
  return firstOfEachSet(rangeSets, listedAddresses(claim), taken).flatMap(({ address }): InterfaceAddress[] => {
    const subnet = placeOf(rangeSets, address)?.subnet;
    if (!subnet?.usable.contains(address.value) || reservations?.otherMac(address, undefined)) return [];
    return [{ address, prefixLength: subnet.cidr.prefixLength }];
  });
}

/** A claim as the owner of an address that it lists, from before it was ever attached. */
export function claimHolder(claim: ClaimView): Holder {
  const { namespace, name, uid, vm } = claim;
  return {
    owner: { kind: "IPAMClaim", namespace, name, uid, interface: "" },
    attachment: null,
    ...(vm === null || vm.uid === "" ? {} : { vm }),
  };
}
