import { formatAddress } from "../../ipam/space/address.ts";
import { type Cidr, type InterfaceAddress, netmask } from "../../ipam/space/cidr.ts";
import { type GuestLink, type GuestRoute, guestLinks } from "./guest-network.ts";
import type { Instance } from "./instance.ts";

/** network_data.json: what Nova's schema (doc/api_schemas/network_data.json) describes, of it what is needed here. */
export interface NetworkData {
  readonly links: readonly NetworkDataLink[];
  readonly networks: readonly NetworkDataNetwork[];
  readonly services: readonly NetworkDataService[];
}

interface NetworkDataLink {
  readonly id: string;
  /** `phy` for whatever the guest sees as a plain Ethernet interface. */
  readonly type: "phy";
  readonly ethernet_mac_address: string;
  readonly mtu: number | null;
}

type NetworkDataNetwork = StaticNetwork | DhcpNetwork;

/** Everything else comes from the DHCP server. */
interface DhcpNetwork {
  readonly id: string;
  readonly type: "ipv4_dhcp";
  readonly link: string;
  readonly network_id: string;
  readonly routes?: undefined;
}

interface StaticNetwork {
  readonly id: string;
  readonly type: "ipv4" | "ipv6";
  readonly link: string;
  readonly network_id: string;
  readonly ip_address: string;
  /** Dotted, or in the form of an IPv6 address. */
  readonly netmask: string;
  readonly routes: readonly NetworkDataRoute[];
  /**
   * Not in the schema, which allows more keys: the gateway of the default route where it is outside of the subnet. Of
   * this key alone cloud-init makes a route by a gateway that is on link (`on-link`, `GatewayOnLink`, ifupdown's
   * gateway).
   */
  readonly gateway?: string;
  readonly services?: readonly NetworkDataService[];
  /** Not in the schema, which allows more keys; cloud-init reads them, and search domains have no other place. */
  readonly dns_search?: readonly string[];
  /** Beside `dns_search`, because an interface with search domains alone is not given the servers at the top. */
  readonly dns_nameservers?: readonly string[];
}

interface NetworkDataRoute {
  readonly network: string;
  readonly netmask: string;
  readonly gateway: string;
}

interface NetworkDataService {
  readonly type: "dns";
  readonly address: string;
}

/**
 * The instance's network configuration: of each link one static network for each address, or one by DHCP; `network0`
 * counts over all links as Nova does. Routes stand with the first address of their family, name servers with the first
 * address of the link and once more at the top: older releases of cloud-init read only those.
 *
 * Valid by Nova's schema but for one thing that Nova itself writes: the schema knows no mask 255.255.255.255, so a host
 * route or an address with /32 is outside of it. The guest's routes matter more than the schema there; the one host
 * route that every guest gets, to the metadata address, is written as /31 and so stays inside.
 */
export function networkData(instance: Instance): NetworkData {
  const links = guestLinks(instance);
  const networks: NetworkDataNetwork[] = [];
  for (const link of links) {
    if (link.dhcp4)
      networks.push({
        id: `network${networks.length}`,
        type: "ipv4_dhcp",
        link: link.id,
        network_id: link.network,
      });
    for (const [at, address] of link.addresses.entries()) {
      networks.push(networkOf(link, { at, address, id: `network${networks.length}` }));
    }
  }
  return {
    links: links.map(({ id, mac, mtu }) => ({ id, type: "phy", ethernet_mac_address: mac, mtu })),
    networks,
    services: services([...new Set(links.flatMap(({ nameservers }) => nameservers))]),
  };
}

function networkOf(
  link: GuestLink,
  { at, address, id }: { at: number; address: InterfaceAddress; id: string },
): StaticNetwork {
  const { family } = address.address;
  const isFirstOfFamily = link.addresses.findIndex((other) => other.address.family === family) === at;
  const routes = isFirstOfFamily ? link.routes.filter(({ destination }) => destination.family === family) : [];
  const outside = routes.find(({ destination, isOutside }) => isOutside && destination.prefixLength === 0);
  return {
    id,
    type: family === 4 ? "ipv4" : "ipv6",
    link: link.id,
    network_id: link.network,
    ip_address: formatAddress(address.address),
    netmask: netmask(family, address.prefixLength),
    routes: routes.filter((route) => route !== outside).map(routeOf),
    ...(outside === undefined ? {} : { gateway: formatAddress(outside.gateway) }),
    ...(at === 0 ? nameservice(link) : {}),
  };
}

function nameservice({ nameservers, searchDomains }: GuestLink): Partial<StaticNetwork> {
  if (nameservers.length === 0) return {};
  if (searchDomains.length === 0) return { services: services(nameservers) };
  return { services: services(nameservers), dns_search: searchDomains, dns_nameservers: nameservers };
}

/** 169.254.169.254 as a number. */
const METADATA_ADDRESS = 0xa9fe_a9fen;

function routeOf({ destination, gateway }: GuestRoute): NetworkDataRoute {
  const { family, base, prefixLength } = destination;
  return {
    network: formatAddress({ family, value: base }),
    netmask: netmask(family, isMetadataRoute(destination) ? 31 : prefixLength),
    gateway: formatAddress(gateway),
  };
}

function isMetadataRoute({ family, base, prefixLength }: Cidr): boolean {
  return family === 4 && base === METADATA_ADDRESS && prefixLength === 32;
}

function services(nameservers: readonly string[]): readonly NetworkDataService[] {
  return nameservers.map((address) => ({ type: "dns", address }));
}
