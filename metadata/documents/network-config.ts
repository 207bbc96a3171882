import { canonicalMac } from "../../ipam/definition/mac.ts";
import { familyBits, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { formatCidr, formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import { type GuestLink, guestLinks } from "./guest-network.ts";
import type { Instance } from "./instance.ts";
import type { NetworkDocument } from "./machine-template.ts";

/** cloud-init's version 2 (netplan's): interfaces are found by MAC. null: no link, the guest's default (DHCP) holds. */
export function networkConfig(instance: Instance): Record<string, unknown> | null {
  const links = guestLinks(instance);
  if (links.length === 0) return null;
  return { version: 2, ethernets: Object.fromEntries(links.map((link) => [link.id, ethernet(link)])) };
}

function ethernet(link: GuestLink): Record<string, unknown> {
  const nameservers = {
    ...(link.nameservers.length > 0 ? { addresses: link.nameservers } : {}),
    ...(link.searchDomains.length > 0 ? { search: link.searchDomains } : {}),
  };
  return {
    match: { macaddress: link.mac },
    ...(link.mtu === null ? {} : { mtu: link.mtu }),
    ...(link.dhcp4 ? { dhcp4: true } : {}),
    ...(link.addresses.length > 0 ? { addresses: link.addresses.map(formatInterfaceAddress) } : {}),
    ...(link.routes.length > 0
      ? {
          routes: link.routes.map(({ destination, gateway, metric, isOutside }) => ({
            to: formatCidr(destination),
            via: formatAddress(gateway),
            ...(isOutside ? { "on-link": true } : {}),
            ...(metric === undefined ? {} : { metric }),
          })),
        }
      : {}),
    ...(Object.keys(nameservers).length > 0 ? { nameservers } : {}),
  };
}

/** A part of a document that a template made: the renderer wrote it, so each field has the type that it has there. */
type Fields = Readonly<Record<string, unknown>>;
type Device = Record<string, unknown>;

/** netplan's names of a bond's parameters, which differ from the kernel's in these. */
const BOND_PARAMETERS: Readonly<Record<string, string>> = {
  downdelay: "down-delay",
  "fail-over-mac": "fail-over-mac-policy",
  miimon: "mii-monitor-interval",
  "num-grat-arp": "gratuitous-arp",
  "primary-reselect": "primary-reselect-policy",
  updelay: "up-delay",
  "xmit-hash-policy": "transmit-hash-policy",
};

/**
 * The network document of a template as cloud-init's network configuration version 2, for guests that are told so: the
 * same links, addresses, routes and name servers. Version 2 has no name servers of the whole machine, so they stand
 * with each link that has a network. A route without gateway is left out.
 */
export function templateNetworkConfig(document: NetworkDocument): Record<string, unknown> {
  const links = fieldsIn(document.links);
  const keys = new Map(links.map((link) => [textOf(link.id), keyOf(link)]));
  const networks = fieldsIn(document.networks);
  const config: Record<string, Record<string, Device>> = {};
  for (const link of links) {
    const section = { bond: "bonds", vlan: "vlans" }[textOf(link.type)] ?? "ethernets";
    const own = networks.filter((network) => network.link === link.id);
    config[section] ??= {};
    config[section][keyOf(link)] = { ...deviceOf(link, keys), ...addressing(own, document) };
  }
  return { version: 2, ...config };
}

/** The name that the interface shall have, where the template says one; links refer to each other by this key. */
function keyOf({ name, id }: Fields): string {
  return textOf(name) || textOf(id);
}

function deviceOf(link: Fields, keys: ReadonlyMap<string, string>): Device {
  const mtu = { mtu: link.mtu };
  const keyOfLink = (id: unknown) => keys.get(textOf(id)) ?? textOf(id);
  const mac = textOf(link.ethernet_mac_address) || textOf(link.vlan_mac_address);
  const macaddress = mac === "" ? {} : { macaddress: canonicalMac(mac) ?? mac };
  switch (link.type) {
    case "bond": {
      const interfaces = Array.isArray(link.bond_links) ? link.bond_links.map(keyOfLink) : [];
      return { ...macaddress, ...mtu, interfaces, parameters: bondParameters(link) };
    }
    case "vlan":
      return { ...macaddress, ...mtu, id: link.vlan_id, link: keyOfLink(link.vlan_link) };
    default: {
      const rename = link.name === undefined ? {} : { "set-name": link.name };
      return { ...(mac === "" ? {} : { match: macaddress, ...rename }), ...mtu };
    }
  }
}

function bondParameters(link: Fields): Device {
  const found = Object.entries(link).filter(
    ([key, value]) => key.startsWith("bond_") && key !== "bond_links" && value !== "" && value !== null,
  );
  return Object.fromEntries(
    found.map(([key, value]) => {
      const name = key.slice("bond_".length).replaceAll("_", "-");
      return [BOND_PARAMETERS[name] ?? name, value];
    }),
  );
}

function addressing(networks: readonly Fields[], document: NetworkDocument): Device {
  if (networks.length === 0) return {};
  const has = (type: string) => networks.some((network) => network.type === type);
  const addresses = networks
    .filter(({ ip_address }) => ip_address !== undefined)
    .map(({ ip_address, netmask }) => `${ip_address}/${prefixLength(textOf(netmask), textOf(ip_address))}`);
  const routes = networks.flatMap((network) => fieldsIn(network.routes));
  const servers = [...routes.flatMap(({ services }) => fieldsIn(services)), ...fieldsIn(document.services)];
  const nameservers = [...new Set(servers.map(({ address }) => textOf(address)))];
  return {
    ...(has("ipv4_dhcp") ? { dhcp4: true } : {}),
    ...(has("ipv6_dhcp") ? { dhcp6: true } : {}),
    ...(has("ipv6_slaac") ? { "accept-ra": true } : {}),
    ...(addresses.length > 0 ? { addresses } : {}),
    ...routesOf(routes),
    ...(nameservers.length > 0 ? { nameservers: { addresses: nameservers } } : {}),
  };
}

function routesOf(routes: readonly Fields[]): Device {
  const usable = routes.filter(({ gateway }) => textOf(gateway) !== "");
  if (usable.length === 0) return {};
  return {
    routes: usable.map(({ network, netmask, gateway }) => {
      const to = textOf(network) || (textOf(gateway).includes(":") ? "::" : "0.0.0.0");
      return { to: `${to}/${prefixLength(textOf(netmask), to)}`, via: gateway };
    }),
  };
}

/** Of a mask in its dotted form or that of an IPv6 address; of none, the whole address. */
function prefixLength(mask: string, address: string): number {
  if (mask === "") return familyBits(address.includes(":") ? 6 : 4);
  const { value } = parseAddress(mask);
  return value.toString(2).replaceAll("0", "").length;
}

function fieldsIn(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
