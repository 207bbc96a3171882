import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Address, familyBits, parseAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";

/**
 * An address that somebody lists as in use, with a mask of its own or without. Unlike an ADD, a reservation need not be
 * sure of the mask. Null when it is no address at all.
 */
export function listedAddress(text: string, definition: NetworkDefinition | null): InterfaceAddress | null {
  try {
    return text.includes("/") ? parseInterfaceAddress(text) : withMask(parseAddress(text), null, definition);
  } catch {
    return null;
  }
}

/** The mask that is known, else that of the subnet that holds the address, else one for the address alone. */
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
