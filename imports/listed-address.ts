import type { Holder } from "../allocations/allocation-object.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { type Address, familyBits, parseAddress } from "../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import type { ClaimView } from "../kube/views/claim-view.ts";

/** An address that an object lists, with or without a mask, which need not be known for certain. null: it is none. */
export function listedAddress(text: string, definition: NetworkDefinition | null): InterfaceAddress | null {
  try {
    return text.includes("/") ? parseInterfaceAddress(text) : withMask(parseAddress(text), null, definition);
  } catch {
    return null;
  }
}

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

/** A claim as the owner of an address that it lists, from before it was ever attached. */
export function claimHolder(claim: ClaimView): Holder {
  const { namespace, name, uid, vm } = claim;
  return {
    owner: { kind: "IPAMClaim", namespace, name, uid, interface: "" },
    attachment: null,
    adopted: true,
    ...(vm === null || vm.uid === "" ? {} : { vm }),
  };
}
