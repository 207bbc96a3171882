import type { Address } from "../space/address.ts";
import { type Cidr, cidrContains, cidrFirst, cidrLast, networkOf, parseCidr } from "../space/cidr.ts";

/** What no host can have. Not 240.0.0.0/4: clusters use it for pods, and Linux takes it. */
const SPECIAL = (
  [
    ["0.0.0.0/8", "addresses that stand for no host"],
    ["127.0.0.0/8", "loopback addresses"],
    ["224.0.0.0/4", "multicast addresses"],
    ["255.255.255.255/32", "the broadcast address of every network"],
    ["::/128", "the address that stands for no host"],
    ["::1/128", "the loopback address"],
    ["ff00::/8", "multicast addresses"],
  ] as const
).map(([text, what]) => ({ text, what, cidr: parseCidr(text) }));

const LINK_LOCAL = parseCidr("fe80::/10");

/** Why hosts cannot have the addresses of a network, for a message; null: they can. */
export function whyNoNetwork(cidr: Cidr): string | null {
  if (cidr.prefixLength === 0) return "it is every address there is; name the subnet of the network";
  const special = SPECIAL.find((one) => overlap(one.cidr, cidr));
  return special === undefined
    ? null
    : `it has ${special.what} (${special.text}), which no host can have; name another subnet`;
}

/** Why no gateway can have the address, for a message; null: one can. */
export function whyNoGateway(address: Address): string | null {
  const own = networkOf(address, address.family === 4 ? 32 : 128);
  const special = SPECIAL.find((one) => overlap(one.cidr, own));
  return special === undefined ? null : `no gateway has ${special.what} (${special.text})`;
}

/** Whether routers are known by such addresses on every link, whatever its subnets: fe80::1. */
export function isLinkLocal(address: Address): boolean {
  return cidrContains(LINK_LOCAL, address);
}

function overlap(one: Cidr, other: Cidr): boolean {
  return one.family === other.family && cidrFirst(one) <= cidrLast(other) && cidrFirst(other) <= cidrLast(one);
}
