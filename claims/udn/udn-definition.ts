/*
 * claims/udn/: OVN-Kubernetes' (Cluster)UserDefinedNetworks
 *
 *   udn-object, udn-watch    their projection and their watch
 *   read-udn                 validation (udn-facts), field by field (udn-fields)
 *   layer2, layer3, localnet, common-rules   by topology
 *   udn-definition           as a network definition
 *   service-reference        the Service that answers its metadata
 */

import { PLUGIN_TYPE } from "../../ipam/definition/definition-keys.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { hostAddresses } from "../../ipam/definition/subnet-ranges.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { type Address, type Family, formatAddress, sameAddress } from "../../ipam/space/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../../ipam/space/cidr.ts";
import { describeProblems, readUdn } from "./read-udn.ts";
import type { UdnFacts } from "./udn-facts.ts";
import type { UdnView } from "./udn-object.ts";

export type UdnDefinition =
  | { readonly kind: "defined"; readonly definition: NetworkDefinition; readonly facts: UdnFacts }
  /** No single range for the whole network: each node has its own, or addresses are not managed. */
  | { readonly kind: "without-ranges"; readonly facts: UdnFacts }
  | { readonly kind: "wrong"; readonly problem: string };

/**
 * The network definition equivalent to a (Cluster)UserDefinedNetwork: the addresses that may be given to workloads by
 * whichever component allocates them, which is OVN-Kubernetes if its plugin attaches the pods.
 */
export function defineUdn(view: UdnView): UdnDefinition {
  const reading = readUdn(view);
  if (reading.kind === "wrong") return { kind: "wrong", problem: describeProblems(reading.problems) };
  const { facts } = reading;
  if (facts.topology === "Layer3" || facts.subnets.length === 0) return { kind: "without-ranges", facts };
  try {
    return { kind: "defined", definition: parsePluginConfig(configOf(view.network, facts)), facts };
  } catch (error) {
    if (error instanceof RefusalError) return { kind: "wrong", problem: error.refusal.message };
    throw error;
  }
}

function configOf(name: string, facts: UdnFacts): object {
  const routers = facts.subnets.map(({ cidr }) => routerAddresses(cidr, facts));
  const excluded = [
    ...[...facts.excludeSubnets, ...facts.infrastructureSubnets].map(formatCidr),
    ...routers.flatMap(({ management }) => (management === null ? [] : [alone(management)])),
  ];
  return {
    name,
    allowPersistentIPs: facts.allowPersistentIPs,
    ipam: {
      type: PLUGIN_TYPE,
      subnets: facts.subnets.map(({ cidr }) => formatCidr(cidr)),
      ...listUnlessEmpty(
        "gateway",
        routers.flatMap(({ gateway }) => (gateway === null ? [] : [formatAddress(gateway)])),
      ),
      ...listUnlessEmpty("excludeSubnets", excluded),
      ...listUnlessEmpty("reservedSubnets", facts.reservedSubnets.map(formatCidr)),
      // OVN-Kubernetes has no cool-down.
      cooldownSeconds: 0,
    },
  };
}

/**
 * The addresses that OVN-Kubernetes reserves in a subnet of a primary network, for its router and each node's
 * management port: by default the first and second host address, or those of infrastructureSubnets.
 */
function routerAddresses(
  cidr: Cidr,
  facts: UdnFacts,
): { readonly gateway: Address | null; readonly management: Address | null } {
  if (facts.role !== "Primary") return { gateway: null, management: null };
  const own = facts.infrastructureSubnets.filter(({ family }) => family === cidr.family);
  const hosts = firstHosts(cidr, cidr);
  const candidates = [...own.flatMap((infra) => firstHosts(infra, cidr)), ...hosts];
  const given = facts.defaultGatewayIPs.find((ip) => cidrContains(cidr, ip));
  const gateway = given ?? candidates[0] ?? null;
  const others = (own.length > 0 ? candidates : [...hosts].reverse()).filter(
    (one) => gateway === null || !sameAddress(one, gateway),
  );
  return { gateway, management: others[0] ?? null };
}

/** The first two host addresses within a part of a subnet. */
function firstHosts(part: Cidr, subnet: Cidr): Address[] {
  const { first, last } = hostAddresses(subnet);
  return [part.base, part.base + 1n, part.base + 2n]
    .filter((value) => value >= first && value <= last && cidrContains(part, addressOf(part.family, value)))
    .slice(0, 2)
    .map((value) => addressOf(part.family, value));
}

function addressOf(family: Family, value: bigint): Address {
  return { family, value };
}

function alone(address: Address): string {
  return `${formatAddress(address)}/${address.family === 4 ? 32 : 128}`;
}

function listUnlessEmpty(key: string, list: readonly string[]): object {
  return list.length === 0 ? {} : { [key]: list };
}
