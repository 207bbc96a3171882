import type { AnsweredAddress } from "../../allocations/records.ts";
import { nodeIsGateway } from "../../ipam/definition/plugin-config.ts";
import type { Configuration } from "../../ipam/definition/read-keys.ts";
import type { Route } from "../../ipam/definition/routes-and-dns.ts";
import { MAIN_TABLE } from "../../ipam/definition/routes-and-dns.ts";
import { type Address, parseAddress } from "../../ipam/space/address.ts";
import { cidrContains, networkOf, parseInterfaceAddress } from "../../ipam/space/cidr.ts";

/** The route to the metadata service, at the address that OpenStack, EC2 and OVN-Kubernetes have for it. */
const METADATA_ROUTE_DST = "169.254.169.254/32";
/** As a gateway: the destination is on the link (RFC 3442). */
const ON_LINK = "0.0.0.0";
const METADATA: Address = parseAddress("169.254.169.254");

/** What the answer to an ADD is about to say of one interface. */
export interface GuestInterface {
  readonly ips: readonly AnsweredAddress[];
  /** Of the network's definition. */
  readonly routes: readonly Route[];
  /** The plugin's configuration; {}: not known. */
  readonly conf: Configuration;
  /** Another interface of the container, attached before, is on a network with metadata and has IPv4. */
  readonly isLater: boolean;
}

/** The part of an answer to an ADD that leads a guest to the metadata service. */
export type GuestAnswer = Pick<GuestInterface, "ips" | "routes">;

/**
 * The addresses and routes in the answer to an ADD on a network with metadata. The guest's node takes what it sends to
 * 169.254.169.254 at the guest's own port, whatever the next hop, and answers its ARP there.
 *
 *   no IPv4 address                                   none: such a guest asks fe80::a9fe:a9fe
 *   another interface leads there already             none: two routes would be one multipath route
 *   a route of its own to 169.254.169.254/32          none: the network's own stands
 *   an address of its own has it on link              none
 *   anything else                                     169.254.169.254/32, on link
 *
 * Also beside a default route: its gateway may be down, and then nobody answers the guest's ARP (docs/decisions/0063).
 * A default route by another interface of the pod (the cluster's network) leads to a port where nobody answers; the
 * route to the one address is narrower and wins over both.
 */
export function guestAnswer(one: GuestInterface): GuestAnswer {
  const { ips, routes, conf } = one;
  const route = guestRoute(one);
  if (route === null) return { ips, routes };
  const gateway = ips.map((ip) => ip.gateway).find((text) => text !== undefined && !text.includes(":"));
  if (route.gw !== undefined || gateway === undefined) return { ips, routes: [...routes, route] };
  // Plugins put the gateway of the address into every route without one (docs/decisions/0043). Where the node itself
  // has that address, it answers for it. Anywhere else nobody may: the first address of a range is often only presumed
  // to be a gateway.
  if (nodeIsGateway(conf)) return { ips, routes: [...routes, { ...route, gw: gateway }] };
  return {
    ips: ips.map((ip) => (ip.gateway?.includes(":") === false ? { address: ip.address } : ip)),
    routes: [...routes.map((other) => withGateway(other, gateway)), route],
  };
}

/** The route of a guest that is told its routes by the metadata service; null: none. */
export function guestRouteToTell(one: Omit<GuestInterface, "conf">): Route | null {
  const route = guestRoute(one);
  // Readers put the gateway of the address into a route without one, too.
  return route === null || route.gw !== undefined ? route : { ...route, gw: ON_LINK };
}

function guestRoute({ ips, routes, isLater }: Omit<GuestInterface, "conf">): Route | null {
  if (!ips.some(({ address }) => parseInterfaceAddress(address).address.family === 4)) return null;
  if (isLater || routes.some(isToMetadata) || ips.some(isOnMetadataLink)) return null;
  return { dst: METADATA_ROUTE_DST };
}

function withGateway({ dst, gw, ...more }: Route, gateway: string): Route {
  return dst.includes(":") || gw !== undefined
    ? { dst, ...(gw === undefined ? {} : { gw }), ...more }
    : { dst, gw: gateway, ...more };
}

/** Routes of another table are not followed by ordinary requests. */
function isToMetadata({ dst, table }: Route): boolean {
  return dst === METADATA_ROUTE_DST && (table === undefined || table === MAIN_TABLE);
}

function isOnMetadataLink({ address }: AnsweredAddress): boolean {
  const own = parseInterfaceAddress(address);
  return cidrContains(networkOf(own.address, own.prefixLength), METADATA);
}
