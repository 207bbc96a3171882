import type { Holder } from "../allocations/allocation-object.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { type Address, familyBits } from "../ipam/space/address.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import { type ClaimView, listedAddresses } from "../kube/views/claim-view.ts";

/** The known mask, else that of the subnet that contains the address, else a full-length one. */
export function withMask(
  address: Address,
  prefixLength: number | null,
  definition: NetworkDefinition | null,
): InterfaceAddress {
  const place = definition === null ? null : placeOf(definition.rangeSets, address);
  return {
    address,
    prefixLength: prefixLength ?? place?.subnet.cidr.prefixLength ?? familyBits(address.family),
  };
}

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
  const taken = new Set(had.map((address) => placeOf(rangeSets, address)?.index));
  return listedAddresses(claim).flatMap(({ address }): InterfaceAddress[] => {
    const place = placeOf(rangeSets, address);
    if (place === null || taken.has(place.index)) return [];
    taken.add(place.index);
    const isGiven = place.subnet.usable.contains(address.value) && !reservations?.otherMac(address, undefined);
    return isGiven ? [{ address, prefixLength: place.subnet.cidr.prefixLength }] : [];
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
