import { formatAddress } from "../../ipam/space/address.ts";
import { formatCidr, formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import { type GuestLink, guestLinks } from "./guest-network.ts";
import type { Instance } from "./instance.ts";

/**
 * cloud-init's network configuration version 2 (netplan's form): interfaces are found by MAC and keep their names.
 * null: there is no link to describe, and the guest's own default (DHCP) shall hold.
 */
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
