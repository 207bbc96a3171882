import { canonicalMac } from "../../ipam/definition/mac.ts";
import type { Route } from "../../ipam/definition/routes-and-dns.ts";
import { MAIN_TABLE } from "../../ipam/definition/routes-and-dns.ts";
import { type Address, type Family, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { type Cidr, cidrContains, type InterfaceAddress, networkOf, parseCidr } from "../../ipam/space/cidr.ts";
import type { Instance, InstanceNetwork } from "./instance.ts";
import { MTU_MAX } from "./machine/read-template.ts";

export interface GuestLink {
  readonly id: string;
  readonly network: string;
  /** Lower-case with colons. */
  readonly mac: string;
  readonly mtu: number | null;
  /** A DHCP server gives it IPv4, the default route among it. */
  readonly dhcp4: boolean;
  readonly addresses: readonly InterfaceAddress[];
  /** Default routes first. */
  readonly routes: readonly GuestRoute[];
  /** Canonical, without repetition. */
  readonly nameservers: readonly string[];
  readonly searchDomains: readonly string[];
}

export interface GuestRoute {
  readonly destination: Cidr;
  /** Unspecified (0.0.0.0 or ::): the destination is on the link. */
  readonly gateway: Address;
  readonly metric?: number;
  /** The gateway is outside of the interface's subnets: an earlier route leads to it, on link. */
  readonly isOutside?: true;
}

/** Links without a MAC of their own are left out: cloud-init gives up the whole network for one it cannot match. */
export function guestLinks(instance: Pick<Instance, "networks">): readonly GuestLink[] {
  const macs = new Set<string>();
  const ids = new Set<string>();
  const found: { readonly mac: string; readonly network: InstanceNetwork }[] = [];
  for (const network of instance.networks) {
    const mac = network.mac === null ? null : canonicalMac(network.mac);
    if (mac === null || macs.has(mac) || ids.has(network.linkId)) continue;
    macs.add(mac);
    ids.add(network.linkId);
    found.push({ mac, network });
  }
  // One that the guest is not told of brings no route, either.
  const byDhcp = found.some(({ network }) => network.addressing === "dhcp");
  return found.map(({ mac, network }) => ({
    id: network.linkId,
    network: network.network,
    mac,
    mtu: usableMtu(network.mtu),
    dhcp4: network.addressing === "dhcp",
    addresses: network.addresses.map(({ address }) => address),
    routes: guestRoutes(network, byDhcp ? [6] : [6, 4]),
    nameservers: [...new Set((network.dns.nameservers ?? []).filter(isAddress))],
    searchDomains: [...new Set([network.dns.search ?? [], network.dns.domain ?? []].flat())],
  }));
}

function usableMtu(mtu: number | null): number | null {
  return mtu !== null && Number.isInteger(mtu) && mtu >= 1 && mtu <= MTU_MAX ? mtu : null;
}

/**
 * The routes as the pod has them: by their own gateway, by that of the interface's address (the CNI library's rule), or
 * on link. A gateway alone makes a default route only on the primary interface, and only of `families`: several would
 * compete for the guest's traffic. Before routes by a gateway outside of the interface's subnets, as beside an address
 * with /32, stands one that leads to it.
 */
function guestRoutes(network: InstanceNetwork, families: readonly Family[]): readonly GuestRoute[] {
  const found = new Map<string, GuestRoute>();
  for (const route of network.routes) {
    const guestRoute = readRoute(route, network);
    if (guestRoute && !found.has(route.dst)) found.set(route.dst, guestRoute);
  }
  const routes = [...found.values()];
  if (network.primary) {
    for (const family of families) {
      const gateway = gatewayOf(network, family);
      const has = routes.some(({ destination }) => isDefault(destination) && destination.family === family);
      if (gateway && !has) routes.unshift({ destination: { family, base: 0n, prefixLength: 0 }, gateway });
    }
  }
  return throughOutside(network, [
    ...routes.filter(({ destination }) => isDefault(destination)),
    ...routes.filter(({ destination }) => !isDefault(destination)),
  ]);
}

function throughOutside(network: InstanceNetwork, routes: readonly GuestRoute[]): GuestRoute[] {
  const before = new Map<string, GuestRoute>();
  const marked = routes.map((route): GuestRoute => {
    const { gateway } = route;
    if (isReachable(network, gateway)) return route;
    const { family, value: base } = gateway;
    const destination = { family, base, prefixLength: family === 4 ? 32 : 128 };
    before.set(formatAddress(gateway), { destination, gateway: onLink(family) });
    return { ...route, isOutside: true };
  });
  const isThere = ({ destination: { family, base, prefixLength } }: GuestRoute) =>
    routes.some(
      ({ destination: one }) => one.family === family && one.base === base && one.prefixLength === prefixLength,
    );
  return [...[...before.values()].filter((one) => !isThere(one)), ...marked];
}

/** Whether an interface needs no further route to a gateway. */
function isReachable({ addresses }: InstanceNetwork, gateway: Address): boolean {
  return (
    gateway.value === 0n ||
    cidrContains(LINK_LOCAL, gateway) ||
    addresses.some(({ address: { address, prefixLength } }) => cidrContains(networkOf(address, prefixLength), gateway))
  );
}

/** IPv6 routers may be told by it. */
const LINK_LOCAL = parseCidr("fe80::/10");

function onLink(family: Family): Address {
  return { family, value: 0n };
}

function readRoute(route: Route, network: InstanceNetwork): GuestRoute | null {
  if (route.table !== undefined && route.table !== MAIN_TABLE) return null;
  const destination = read(parseCidr, route.dst);
  if (destination === null) return null;
  if (!network.addresses.some(({ address }) => address.address.family === destination.family)) return null;
  const gateway =
    route.gw === undefined
      ? (gatewayOf(network, destination.family) ?? onLink(destination.family))
      : read(parseAddress, route.gw);
  if (gateway === null || gateway.family !== destination.family) return null;
  return { destination, gateway, ...(route.priority === undefined ? {} : { metric: route.priority }) };
}

function gatewayOf({ addresses }: InstanceNetwork, family: Family): Address | null {
  return addresses.find(({ gateway }) => gateway?.family === family)?.gateway ?? null;
}

function isDefault({ prefixLength }: Cidr): boolean {
  return prefixLength === 0;
}

function isAddress(text: string): boolean {
  const address = read(parseAddress, text);
  return address !== null && formatAddress(address) === text;
}

/** Definitions are checked where they are read; a text that is none is left out here, because a boot must go on. */
function read<T>(parse: (text: string) => T, text: string): T | null {
  try {
    return parse(text);
  } catch {
    return null;
  }
}
