import { type Address, formatAddress } from "../space/address.ts";
import { cidrContains, formatCidr } from "../space/cidr.ts";
import { readerFor } from "../space/written.ts";
import { type ConfigValue, invalid, type PickKey, readTexts, readWith } from "./definition-keys.ts";
import { whyNoGateway } from "./special-networks.ts";
import { hostAddresses, impliedGateway, listSubnets, readSubnet, type SubnetRange } from "./subnet-ranges.ts";

/** Range sets of a network: each gives each interface an address; more than two are rare. Keeps an ADD's writes few. */
export const RANGE_SETS_MAX = 16;

/**
 * Reads `subnets` and `gateway`: one range set per subnet. With `gatewayImplied` (isGateway or isDefaultGateway in
 * the plugin's configuration) a subnet without a gateway gets its first address as one.
 */
export function readOwnSubnets(pick: PickKey, gatewayImplied: boolean): readonly (readonly SubnetRange[])[] {
  const subnets = pick("subnets");
  if (subnets === null) return [];
  const items = readTexts(subnets, RANGE_SETS_MAX);
  const reader = readerFor(items.length);
  const bare = items.map((item): SubnetRange => {
    const { cidr, first, last } = readSubnet(item, reader);
    return { found: item, cidr, gateway: null, first, last };
  });
  const gateways = readGateways(pick("gateway"), bare);
  return bare.map((range) => {
    const gateway = gateways.get(range) ?? (gatewayImplied ? impliedGateway(range.cidr) : null);
    return [{ ...range, gateway }];
  });
}

function readGateways(found: ConfigValue | null, ranges: readonly SubnetRange[]): ReadonlyMap<SubnetRange, Address> {
  const gateways = new Map<SubnetRange, Address>();
  if (found === null) return gateways;
  const items = readTexts(found, RANGE_SETS_MAX);
  const reader = readerFor(items.length);
  const read = items.map((item) => ({ item, gateway: readWith(reader.address, item) }));
  const isInside = (one: (typeof read)[number]) => ranges.some(({ cidr }) => cidrContains(cidr, one.gateway));
  for (const { item, gateway } of [...read.filter(isInside), ...read.filter((one) => !isInside(one))]) {
    const range =
      ranges.find(({ cidr }) => cidrContains(cidr, gateway)) ?? onlyOneWithout(item, gateway, ranges, gateways);
    const other = gateways.get(range);
    if (other !== undefined) {
      invalid(item, `${formatCidr(range.cidr)} has gateway ${formatAddress(other)} already; give one per subnet`);
    }
    refuseUnfitGateway(item, gateway, range);
    gateways.set(range, gateway);
  }
  return gateways;
}

/** The subnet of a gateway that is inside of none, such as fe80::1. */
function onlyOneWithout(
  found: ConfigValue,
  gateway: Address,
  ranges: readonly SubnetRange[],
  gateways: ReadonlyMap<SubnetRange, Address>,
): SubnetRange {
  const ofFamily = ranges.filter(({ cidr }) => cidr.family === gateway.family);
  const [range = ofFamily[0], second] = ofFamily.filter((one) => !gateways.has(one));
  if (range === undefined) {
    invalid(found, `the network has no IPv${gateway.family} subnet (${listSubnets(ranges)})`);
  }
  if (second !== undefined) {
    invalid(
      found,
      `it is inside none of the subnets (${listSubnets(ranges)}); write them as ranges, each with its gateway`,
    );
  }
  return range;
}

/**
 * A gateway may be outside of its subnet: hosting providers and IPv6 routers have such ones. It cannot be the network
 * or broadcast address. IPv6's subnet-router anycast address is a router's own.
 */
export function refuseUnfitGateway(found: ConfigValue, gateway: Address, { cidr }: Pick<SubnetRange, "cidr">): void {
  if (gateway.family !== cidr.family) {
    invalid(found, `the gateway of ${formatCidr(cidr)} has to be IPv${cidr.family} too`);
  }
  const why = whyNoGateway(gateway);
  if (why !== null) invalid(found, why);
  if (gateway.family === 6 || !cidrContains(cidr, gateway)) return;
  const { first, last } = hostAddresses(cidr);
  if (gateway.value >= first && gateway.value <= last) return;
  const what = gateway.value < first ? "network" : "broadcast";
  invalid(found, `it is the ${what} address of ${formatCidr(cidr)}; name a host address`);
}
