import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { type Address, familyBits, parseAddress } from "../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../ipam/space/cidr.ts";
import { placeOf } from "../ipam/space/range-set.ts";

/**
 * An address that an object lists as in use, with or without a mask. Unlike an ADD, a reservation need not know the
 * mask for certain. null when it is not an address.
 */
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
