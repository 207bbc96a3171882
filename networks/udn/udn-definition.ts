/*
 * networks/udn/: OVN-Kubernetes' (Cluster)UserDefinedNetworks
 *
 *   udn-object, udn-watch    their projection and their watch
 *   udn-subnets              their subnets, as far as they can be read
 *   udn-definition           as a network definition
 *   service-reference        the Service that answers its metadata
 */

import { isObject, type JsonObject, PLUGIN_TYPE } from "../../ipam/definition/definition-keys.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { hostAddresses } from "../../ipam/definition/subnet-ranges.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import {
  type Address,
  AddressSyntaxError,
  type Family,
  formatAddress,
  parseAddress,
  sameAddress,
} from "../../ipam/space/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../../ipam/space/cidr.ts";
import type { UdnView } from "./udn-object.ts";
import { cidrsAt, listOf } from "./udn-subnets.ts";

/**
 * The network definition equivalent to a (Cluster)UserDefinedNetwork: the addresses that may be given to workloads by
 * whichever component allocates them, which is OVN-Kubernetes if its plugin attaches the pods. The API server has
 * validated the object by OVN-Kubernetes' rules, so they are not checked again. null: there is no single range for the
 * whole network (Layer3, where each node has its own, or addresses are not managed), or the ranges cannot be read.
 */
export function defineUdn({ network, networkSpec }: UdnView): NetworkDefinition | null {
  const section = [networkSpec.layer2, networkSpec.localnet].find(isObject);
  const subnets = section ? cidrsAt(section, "subnets") : [];
  if (section === undefined || subnets.length === 0) return null;
  try {
    return parsePluginConfig(configOf(network, section, subnets));
  } catch (error) {
    if (error instanceof RefusalError) return null;
    throw error;
  }
}

function configOf(name: string, section: JsonObject, subnets: readonly Cidr[]): object {
  const infrastructure = cidrsAt(section, "infrastructureSubnets");
  const routers = subnets.map((cidr) => routerAddresses(cidr, section, infrastructure));
  const excluded = [
    ...[...cidrsAt(section, "excludeSubnets"), ...infrastructure].map(formatCidr),
    ...routers.flatMap(({ management }) => (management === null ? [] : [alone(management)])),
  ];
  return {
    name,
    allowPersistentIPs: isObject(section.ipam) && section.ipam.lifecycle === "Persistent",
    ipam: {
      type: PLUGIN_TYPE,
      subnets: subnets.map(formatCidr),
      ...listUnlessEmpty(
        "gateway",
        routers.flatMap(({ gateway }) => (gateway === null ? [] : [formatAddress(gateway)])),
      ),
      ...listUnlessEmpty("excludeSubnets", excluded),
      ...listUnlessEmpty("reservedSubnets", cidrsAt(section, "reservedSubnets").map(formatCidr)),
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
  section: JsonObject,
  infrastructure: readonly Cidr[],
): { readonly gateway: Address | null; readonly management: Address | null } {
  if (section.role !== "Primary") return { gateway: null, management: null };
  const own = infrastructure.filter(({ family }) => family === cidr.family);
  const hosts = firstHosts(cidr, cidr);
  const candidates = [...own.flatMap((infra) => firstHosts(infra, cidr)), ...hosts];
  const given = listOf(section.defaultGatewayIPs)
    .flatMap(readAddress)
    .find((ip) => cidrContains(cidr, ip));
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

function readAddress(value: unknown): Address[] {
  try {
    return typeof value === "string" ? [parseAddress(value)] : [];
  } catch (error) {
    if (error instanceof AddressSyntaxError) return [];
    throw error;
  }
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
