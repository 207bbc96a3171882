import type { Route } from "../../ipam/definition/routes-and-dns.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { cidrContains, networkOf, parseCidr, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { AnsweredAddress } from "../../store/records.ts";

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
  readonly conf: Readonly<Record<string, unknown>>;
  /** The reserved address by which an earlier release gave it the route; null: it did not. */
  readonly formerGateway: string | null;
  /** Another interface of the container, attached before, is on a network with metadata and has IPv4. */
  readonly isLater: boolean;
}

/**
 * The route to 169.254.169.254 that the answer to an ADD has beside the network's own; null: none. The listener's node
 * takes what a guest sends there at the guest's own port, whatever the next hop, so a guest needs only some route out
 * of this interface.
 *
 *   it had the route by the reserved address          the same one again: a repeated ADD is answered as before
 *   no IPv4 address                                   none: such a guest asks fe80::a9fe:a9fe
 *   another interface leads there already             none: two routes would be one multipath route
 *   a route of its own covers 169.254.169.254         none: a default route does, as does 169.254.0.0/16
 *   an address of its own has it on link              none
 *   anything else                                     169.254.169.254/32, on link
 *
 * Only this interface's own result counts. A default route by another interface of the pod (the cluster's network) leads
 * to a port where nobody answers; the route to the one address is narrower and wins over it.
 */
export function decideGuestRoute(one: GuestInterface): Route | null {
  const { ips, routes, conf, formerGateway, isLater } = one;
  if (!ips.some(({ address }) => parseInterfaceAddress(address).address.family === 4)) return null;
  if (isLater || routes.some(isToMetadata)) return null;
  if (formerGateway !== null) return { dst: METADATA_ROUTE_DST, gw: formerGateway };
  if (conf.isDefaultGateway === true || routes.some(coversMetadata) || ips.some(isOnMetadataLink))
    return null;
  const gateway = ips.map((ip) => ip.gateway).find((text) => text !== undefined && !text.includes(":"));
  if (gateway === undefined) return { dst: METADATA_ROUTE_DST };
  // Plugins put the gateway of the interface's address into a route without one. Where the node itself has that
  // address it answers for it; anywhere else nobody may, as where a range's first address is only presumed a gateway.
  const isNodes = conf.isGateway === true || conf.type === "ptp";
  return { dst: METADATA_ROUTE_DST, gw: isNodes ? gateway : ON_LINK };
}

/** The same for a guest that is told its routes by the metadata service. */
export function guestRouteToTell(one: Omit<GuestInterface, "conf">): Route | null {
  const route = decideGuestRoute({ ...one, conf: {} });
  // There, too, a route without a gateway gets that of the address.
  return route === null || route.gw !== undefined ? route : { ...route, gw: ON_LINK };
}

function isToMetadata({ dst }: Route): boolean {
  return dst === METADATA_ROUTE_DST;
}

/** Routes of another table are not followed by ordinary requests. */
function coversMetadata({ dst, table }: Route): boolean {
  return (table === undefined || table === MAIN_TABLE) && cidrContains(parseCidr(dst), METADATA);
}

const MAIN_TABLE = 254;

function isOnMetadataLink({ address }: AnsweredAddress): boolean {
  const own = parseInterfaceAddress(address);
  return cidrContains(networkOf(own.address, own.prefixLength), METADATA);
}

/** The reserved address as the gateway of a former route; null: no address of the interface reaches it. */
export function formerGatewayOf(ips: readonly AnsweredAddress[], reserved: Address): string | null {
  const reached = ips.some(({ address }) => {
    const own = parseInterfaceAddress(address);
    return cidrContains(networkOf(own.address, own.prefixLength), reserved);
  });
  return reached ? formatAddress(reserved) : null;
}
