import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { placeOfAddress } from "../ipam/place-of-address.ts";
import type { Address } from "../ipam/space/address.ts";
import type { AddressPlace } from "./admin-api.ts";

export function placesOn(
  definitions: readonly (NetworkDefinition | null | undefined)[],
  address: Address,
): AddressPlace[] {
  return definitions.flatMap((definition) => {
    const place = definition == null ? null : placeOfAddress(definition, address);
    return definition == null || place === null ? [] : [{ network: definition.name, ...place }];
  });
}
