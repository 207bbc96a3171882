import type { NetworkDefinition } from "./definition/network-definition.ts";
import { type Address, sameAddress } from "./space/address.ts";
import { cidrContains, cidrFirst, cidrLast, formatCidr } from "./space/cidr.ts";
import { placeOf } from "./space/range-set.ts";

/** What an address is on a network, whoever holds it. */
export type PlaceKind =
  | "gateway"
  | "network-address"
  | "broadcast"
  | "anycast"
  | "excluded"
  | "reserved"
  | "outside-range"
  | "free";

/** Longest prefixes whose first and last address are not given: RFC 3021 and RFC 6164 use all of the longer ones. */
const SPECIAL_PREFIX_MAX = { 4: 30, 6: 126 } as const;

/** null: the network has nothing to do with the address. */
export function placeOfAddress(
  { rangeSets }: Pick<NetworkDefinition, "rangeSets">,
  address: Address,
): { readonly kind: PlaceKind; readonly subnet: string } | null {
  const subnets = rangeSets.flatMap((set) => set.subnets);
  const gatewayOf = subnets.find(({ gateway }) => gateway !== null && sameAddress(gateway, address));
  if (gatewayOf !== undefined) return { kind: "gateway", subnet: formatCidr(gatewayOf.cidr) };
  const subnet = placeOf(rangeSets, address)?.subnet;
  if (subnet === undefined || !cidrContains(subnet.cidr, address)) return null;
  const { cidr, extent, usable, automatic } = subnet;
  const { value } = address;
  const kind = (): PlaceKind => {
    const isSpecial = cidr.prefixLength <= SPECIAL_PREFIX_MAX[cidr.family];
    if (isSpecial && value === cidrFirst(cidr)) return cidr.family === 4 ? "network-address" : "anycast";
    if (isSpecial && cidr.family === 4 && value === cidrLast(cidr)) return "broadcast";
    if (!extent.contains(value)) return "outside-range";
    if (!usable.contains(value)) return "excluded";
    return automatic.contains(value) ? "free" : "reserved";
  };
  return { kind: kind(), subnet: formatCidr(cidr) };
}
