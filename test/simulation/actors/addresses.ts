import type { Chance } from "../engine/chance.ts";

/** Addresses as people write them, without a parser of the product. */

const V4_BITS = 32;
/** Of an IPv6 subnet, the addresses at its beginning: those that are used. */
const V6_FIRST = 256;

/** An address with the subnet's prefix length, somewhere in it: not the first ones, which gateways have. */
export function addressIn(subnet: string, chance: Chance): string {
  const [base = "", length = ""] = subnet.trim().split("/");
  if (base.includes(":")) return `${base}${(2 + chance.below(V6_FIRST - 2)).toString(16)}/${length}`;
  const size = 2 ** (V4_BITS - Number(length));
  const number = base.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
  const picked = number + 2 + chance.below(Math.max(1, Math.min(size, 250) - 3));
  const octets = [24, 16, 8, 0].map((shift) => Math.floor(picked / 2 ** shift) % 256);
  return `${octets.join(".")}/${length}`;
}
