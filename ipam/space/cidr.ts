import { type Address, AddressSyntaxError, type Family, familyBits, formatAddress, parseAddress } from "./address.ts";

/** A network: `base` has no host bits. */
export interface Cidr {
  readonly family: Family;
  readonly base: bigint;
  readonly prefixLength: number;
}

/** An address as an interface wears it: with the prefix length of its subnet. */
export interface InterfaceAddress {
  readonly address: Address;
  readonly prefixLength: number;
}

/** Reads a network, such as `10.0.0.0/24`. Throws AddressSyntaxError, which names the right one for host bits. */
export function parseCidr(text: string): Cidr {
  return refuseHostBits(text, parseNetworkAround(text)).cidr;
}

export function refuseHostBits<T extends { readonly cidr: Cidr; readonly hasHostBits: boolean }>(
  text: string,
  network: T,
): T {
  if (!network.hasHostBits) return network;
  throw new AddressSyntaxError(`${text} has host bits; the network is ${formatCidr(network.cidr)}`);
}

/** Reads the network around an address, such as 10.0.0.0/24 from `10.0.0.5/24`. Throws AddressSyntaxError. */
export function parseNetworkAround(text: string): { readonly cidr: Cidr; readonly hasHostBits: boolean } {
  const { address, prefixLength } = parseSlash(text, "network", parseAddress);
  const cidr = networkOf(address, prefixLength);
  return { cidr, hasHostBits: cidr.base !== address.value };
}

/** Reads an address with its subnet's prefix length, such as `10.0.0.5/24`. Throws AddressSyntaxError. */
export function parseInterfaceAddress(text: string): InterfaceAddress {
  return parseSlash(text, "interface", parseAddress);
}

/** Reads an address and a prefix length, the address with the given reader. Throws AddressSyntaxError. */
export function parseSlash(
  text: string,
  whatFor: "network" | "interface",
  parse: (text: string) => Address,
): InterfaceAddress {
  const slash = text.indexOf("/");
  if (slash < 0) {
    const address = parse(text);
    const plain = formatAddress(address);
    const length = whatFor === "network" ? familyBits(address.family) : address.family === 4 ? 24 : 64;
    const remedy = `write ${plain}/${length}${whatFor === "network" ? " for it alone" : ", with the length of its subnet"}`;
    throw new AddressSyntaxError(`${plain} has no prefix length; ${remedy}`);
  }
  const address = parse(text.slice(0, slash));
  const digits = text.slice(slash + 1);
  const bits = familyBits(address.family);
  if (!/^(0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > bits) {
    throw new AddressSyntaxError(
      `"${text.slice(0, 80)}" has a bad prefix length; IPv${address.family} takes /0 to /${bits}`,
    );
  }
  return { address, prefixLength: Number(digits) };
}

export function networkOf(address: Address, prefixLength: number): Cidr {
  const hostBits = BigInt(familyBits(address.family) - prefixLength);
  return { family: address.family, base: (address.value >> hostBits) << hostBits, prefixLength };
}

/** `10.0.0.0/24`, canonical. */
export function formatCidr(cidr: Cidr): string {
  return `${formatAddress({ family: cidr.family, value: cidr.base })}/${cidr.prefixLength}`;
}

/** `10.0.0.5/24`, canonical: the form of CNI results and of `IPAMClaim.status.ips`. */
export function formatInterfaceAddress(held: InterfaceAddress): string {
  return `${formatAddress(held.address)}/${held.prefixLength}`;
}

/** Number of addresses, network and broadcast address included. */
export function cidrSize(cidr: Cidr): bigint {
  return 1n << BigInt(familyBits(cidr.family) - cidr.prefixLength);
}

export function cidrFirst(cidr: Cidr): bigint {
  return cidr.base;
}

/** The highest address, as a number: the broadcast address in IPv4. */
export function cidrLast(cidr: Cidr): bigint {
  return cidr.base + cidrSize(cidr) - 1n;
}

/** Does the network hold this address? Never across families. */
export function cidrContains(cidr: Cidr, address: Address): boolean {
  return cidr.family === address.family && address.value >= cidr.base && address.value <= cidrLast(cidr);
}

/** 24 → `255.255.255.0`; for IPv6, 64 → `ffff:ffff:ffff:ffff::`. */
export function netmask(family: Family, prefixLength: number): string {
  const bits = BigInt(familyBits(family));
  const hostBits = bits - BigInt(prefixLength);
  return formatAddress({ family, value: (((1n << bits) - 1n) >> hostBits) << hostBits });
}
