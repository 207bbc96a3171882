import { type Address, formatAddress, parseAddress } from "../space/address.ts";
import { cidrContains, cidrFirst, cidrLast, formatCidr, parseCidr } from "../space/cidr.ts";
import { type ConfigValue, invalid, type PickKey, readTexts, readWith } from "./definition-keys.ts";
import { hostAddresses, impliedGateway, listSubnets, type SubnetRange } from "./subnet-ranges.ts";

/**
 * Range sets of one network. Each gives every interface one address, and more than two are rare. The limit keeps the
 * writes of one ADD few.
 */
export const RANGE_SETS_MAX = 16;

/**
 * Reads `subnets` and `gateway`: one range set per subnet. With `gatewayImplied` (isGateway or isDefaultGateway in
 * the plugin's configuration) a subnet without a gateway gets its first address as one.
 */
export function readOwnSubnets(pick: PickKey, gatewayImplied: boolean): readonly (readonly SubnetRange[])[] {
  const subnets = pick("subnets");
  if (subnets === null) return [];
  const bare = readTexts(subnets, RANGE_SETS_MAX).map((item): SubnetRange => {
    const cidr = readWith(parseCidr, item);
    return { found: item, cidr, gateway: null, first: cidrFirst(cidr), last: cidrLast(cidr) };
  });
  const gateways = readGateways(pick("gateway"), bare);
  return bare.map((range) => {
    const gateway = gateways.get(range) ?? (gatewayImplied ? impliedGateway(range.cidr) : null);
    return [{ ...range, gateway }];
  });
}

function readGateways(
  found: ConfigValue | null,
  ranges: readonly SubnetRange[],
): ReadonlyMap<SubnetRange, Address> {
  const gateways = new Map<SubnetRange, Address>();
  if (found === null) return gateways;
  for (const item of readTexts(found, RANGE_SETS_MAX)) {
    const gateway = readWith(parseAddress, item);
    const range = ranges.find(({ cidr }) => cidrContains(cidr, gateway));
    if (range === undefined)
      invalid(item, `it is not inside the subnets of the network (${listSubnets(ranges)})`);
    const other = gateways.get(range);
    if (other !== undefined) {
      invalid(
        item,
        `${formatCidr(range.cidr)} has gateway ${formatAddress(other)} already; give one per subnet`,
      );
    }
    refuseUnfitGateway(item, gateway, range);
    gateways.set(range, gateway);
  }
  return gateways;
}

/** A gateway cannot be the network or broadcast address. IPv6's subnet-router anycast address is a router's own. */
export function refuseUnfitGateway(
  found: ConfigValue,
  gateway: Address,
  range: Pick<SubnetRange, "cidr">,
): void {
  if (gateway.family === 6) return;
  const { first, last } = hostAddresses(range.cidr);
  if (gateway.value >= first && gateway.value <= last) return;
  const what = gateway.value < first ? "network" : "broadcast";
  invalid(found, `it is the ${what} address of ${formatCidr(range.cidr)}; name a host address`);
}
