import { sameAddress } from "../space/address.ts";
import { formatCidr } from "../space/cidr.ts";
import type { SubnetDefinition } from "../space/range-set.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { canonicalRoutes } from "./routes-and-dns.ts";

/** What an interface would get differently from the configuration of its own node. */
export type Difference = "ranges" | "gateway" | "routes" | "DNS" | "metadata";

/**
 * What `given`, the definition in force on the interface's bridge, would give an interface beyond `own`, the
 * configuration of its node; null: nothing. It may give less, because a runtime does not pass on keys beside `plugins`
 * in a list: fewer addresses of the same subnets, or a gateway where `own` has none. Cool-down, persistence and the
 * like are not compared.
 */
export function differenceFrom(own: NetworkDefinition, given: NetworkDefinition): Difference | null {
  const mine = subnetsOf(own);
  const theirs = subnetsOf(given);
  const all = (holds: (mine: SubnetDefinition, subnet: SubnetDefinition) => boolean) =>
    theirs.every((subnet, index) => holds(mine[index] as SubnetDefinition, subnet));
  if (own.rangeSets.length !== given.rangeSets.length || mine.length !== theirs.length) return "ranges";
  if (!all((one, subnet) => formatCidr(one.cidr) === formatCidr(subnet.cidr))) return "ranges";
  if (!all(hasGatewayOf)) return "gateway";
  if (!all(givesAllOf)) return "ranges";
  if (canonicalRoutes(own.routes).join() !== canonicalRoutes(given.routes).join()) return "routes";
  if (canonicalDns(own) !== canonicalDns(given)) return "DNS";
  return own.metadata?.tokens === given.metadata?.tokens ? null : "metadata";
}

function subnetsOf({ rangeSets }: NetworkDefinition): SubnetDefinition[] {
  return rangeSets.flatMap(({ subnets }) => subnets);
}

/** The node's configuration holds back no address of the subnet. */
function givesAllOf(mine: SubnetDefinition, { usable, automatic }: SubnetDefinition): boolean {
  return usable.subtract(mine.usable).size === 0n && automatic.subtract(mine.automatic).size === 0n;
}

function hasGatewayOf({ gateway: mine }: SubnetDefinition, { gateway }: SubnetDefinition): boolean {
  return mine === null || (gateway !== null && sameAddress(mine, gateway));
}

function canonicalDns({ dns, resolvConf }: NetworkDefinition): string {
  return JSON.stringify([dns, resolvConf ?? null]);
}
