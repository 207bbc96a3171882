import { type Family, familyBits, formatAddress } from "../../../ipam/space/address.ts";
import { netmask } from "../../../ipam/space/cidr.ts";
import { computedAddress } from "./computed-address.ts";
import type { MachineObjects } from "./objects.ts";
import { type PoolResults, poolNamed, resultOfFamily } from "./pools.ts";
import type {
  ComputedRange,
  TemplateGateway,
  TemplateNetwork,
  TemplateNetworks,
  TemplateRoute,
  TemplateServices,
  TemplateStaticNetwork,
} from "./template.ts";
import { inPart, TemplateProblem } from "./template.ts";

export interface NetworkInputs extends MachineObjects {
  readonly index: number;
  readonly pools: PoolResults;
}

export interface MachineNetwork {
  readonly type: string;
  readonly id: string;
  readonly link: string;
  /** Without mask. */
  readonly ip_address?: string;
  /** Dotted or in the form of an IPv6 address; "" when the pool has no prefix length. */
  readonly netmask?: string;
  readonly routes: readonly MachineRoute[];
}

interface MachineRoute {
  readonly network: string;
  readonly netmask: string;
  readonly gateway: string;
  readonly services: readonly MachineService[];
}

/** Throws TemplateProblem that names the network. */
export function machineNetworks(template: TemplateNetworks | undefined, inputs: NetworkInputs): MachineNetwork[] {
  const { ipv4 = [], ipv6 = [], ipv4DHCP = [], ipv6DHCP = [], ipv6SLAAC = [] } = template ?? {};
  const statics = (family: Family) => (network: TemplateStaticNetwork) =>
    inPart(networkName(network), () => ({
      ...header(`ipv${family}`, network),
      ...(network.ipAddress === undefined
        ? poolAddress(network, family, inputs)
        : computed(network.ipAddress, network, family, inputs)),
      routes: routes(network, family, inputs),
    }));
  const dynamic = (type: string, family: Family) => (network: TemplateNetwork) =>
    inPart(networkName(network), () => ({
      ...header(type, network),
      routes: routes(network, family, inputs),
    }));
  return [
    ...ipv4.map(statics(4)),
    ...ipv6.map(statics(6)),
    ...ipv4DHCP.map(dynamic("ipv4_dhcp", 4)),
    ...ipv6DHCP.map(dynamic("ipv6_dhcp", 6)),
    ...ipv6SLAAC.map(dynamic("ipv6_slaac", 6)),
  ];
}

function header(type: string, { id = "", link = "" }: TemplateNetwork) {
  return { type, id, link };
}

function poolAddress(network: TemplateStaticNetwork, family: Family, inputs: NetworkInputs) {
  const names = {
    annotation: network.fromPoolAnnotation,
    reference: network.fromPoolRef,
    name: network.ipAddressFromIPPool,
  };
  const pool = poolNamed(names, inputs) ?? "";
  const result = inputs.pools.get(pool);
  if (result === undefined) throw new TemplateProblem(`pool not found in cache: ${pool}`);
  const { address, prefix } = resultOfFamily(pool, result, family);
  return { ip_address: address, netmask: maskText(prefix, family) };
}

function computed(
  range: ComputedRange,
  { netmask: given }: TemplateStaticNetwork,
  family: Family,
  { index }: NetworkInputs,
) {
  const { address, subnet } = computedAddress(range, index);
  if (address.family !== family) {
    throw new TemplateProblem(`ipAddress ${formatAddress(address)} is no IPv${family} address`);
  }
  const prefix = given ?? subnet?.prefixLength;
  if (prefix === undefined) throw new TemplateProblem("ipAddress needs netmask, a prefix length, or a subnet");
  return { ip_address: formatAddress(address), netmask: maskText(prefix, family) };
}

function routes({ routes = [] }: TemplateNetwork, family: Family, inputs: NetworkInputs): MachineRoute[] {
  return routes.map((route: TemplateRoute) => ({
    network: route.network ?? "",
    netmask: maskText(route.prefix ?? 0, family),
    gateway: gatewayOf(route.gateway ?? {}, family, inputs),
    services: machineServices(route.services, inputs.pools),
  }));
}

function gatewayOf(gateway: TemplateGateway, family: Family, inputs: NetworkInputs): string {
  if (gateway.string) return gateway.string;
  const names = {
    annotation: gateway.fromPoolAnnotation,
    reference: gateway.fromPoolRef,
    name: gateway.fromIPPool,
  };
  const pool = poolNamed(names, inputs);
  if (pool === null) return "";
  const result = inputs.pools.get(pool);
  if (result === undefined) throw new TemplateProblem(`gateway: failed to fetch pool from cache: ${pool}`);
  return resultOfFamily(pool, result, family).gateway ?? "";
}

function maskText(prefix: number | null, family: Family): string {
  if (prefix === null) return "";
  const bits = familyBits(family);
  if (!Number.isInteger(prefix) || prefix < 0 || prefix > bits) {
    throw new TemplateProblem(`prefix ${prefix}: IPv${family} has lengths from 0 to ${bits}`);
  }
  return netmask(family, prefix);
}

function networkName({ id = "" }: TemplateNetwork): string {
  return `networkData network ${JSON.stringify(id)}`;
}

interface MachineService {
  readonly type: "dns";
  readonly address: string;
}

/** Name servers in their order, then those of the pool. Throws TemplateProblem. */
export function machineServices(template: TemplateServices | undefined, pools: PoolResults): MachineService[] {
  const { dns = [], dnsFromIPPool } = template ?? {};
  return [...dns, ...(dnsFromIPPool ? dnsOfPool(dnsFromIPPool, pools) : [])].map((address) => ({
    type: "dns",
    address,
  }));
}

function dnsOfPool(name: string, pools: PoolResults): readonly string[] {
  const result = pools.get(name);
  if (result === undefined) throw new TemplateProblem(`dnsFromIPPool: pool not found in cache: ${name}`);
  return result.dnsServers;
}
