import { formatAddress } from "../../ipam/space/address.ts";

/**
 * The address D that stands for one port (an admitted attachment interface) on this node, and for no other one ever: a
 * number from 0xf0000000 (240.0.0.0/5: Linux takes class E as unicast, and no guest can sensibly have it). The listener
 * sees it as the destination of the guest's connection. Its upper 16 bits are a block, which belongs to one door of
 * the listener (see ../drivers/driver.ts); both are counted up and never used again.
 */
export type PortAddress = number & { readonly brand: "PortAddress" };

export const PORT_ADDRESS_FIRST = 0xf0000000;
export const PORT_ADDRESS_LAST = 0xf7ffffff;
export const PORT_ADDRESSES = "240.0.0.0/5";

/** `240.0.0.5` */
export function formatPortAddress(address: PortAddress): string {
  return formatAddress({ family: 4, value: BigInt(address) });
}

/** The prefix (/64) that takes the place of fe80::/64 in the guest's IPv6 source address: `fd00:6d64:f000:5::`. */
export function portPrefix6(address: PortAddress): string {
  return formatAddress({ family: 6, value: (0xfd006d64n << 96n) | (BigInt(address) << 64n) });
}
