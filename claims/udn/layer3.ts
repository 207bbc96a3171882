import { isObject } from "../../ipam/definition/definition-keys.ts";
import { type Cidr, formatCidr } from "../../ipam/space/cidr.ts";
import { holdsCidr, readJoinSubnets, readMtu, readRole } from "./common-rules.ts";
import type { UdnFacts, UdnSubnet } from "./udn-facts.ts";
import type { UdnFields } from "./udn-fields.ts";

const SUBNETS_MAX = 400;
const SECONDARY_SUBNETS_MAX = 2;
const HOST_SUBNET_MAX = 127;
const IPV4_BITS = 32;

/** Reads `layer3`; null: its role is not known. Every node has a part of each subnet; no address is persistent. */
export function readLayer3(fields: UdnFields): UdnFacts | null {
  const role = readRole(fields);
  const subnets = readSubnets(fields);
  const mtu = readMtu(
    fields,
    subnets.map(({ cidr }) => cidr),
  );
  readJoinSubnets(fields, role);
  if (role === "Secondary") refuseManySecondary(fields, subnets);
  refuseOverlaps(fields, subnets);
  if (role === null) return null;
  return {
    topology: "Layer3",
    role,
    mtu,
    subnets,
    excludeSubnets: [],
    reservedSubnets: [],
    infrastructureSubnets: [],
    defaultGatewayIPs: [],
    ipamMode: "Enabled",
    allowPersistentIPs: false,
    physicalNetworkName: null,
    vlan: null,
  };
}

function readSubnets(fields: UdnFields): UdnSubnet[] {
  const list = fields.list("subnets", SUBNETS_MAX);
  if (!fields.has("subnets")) fields.wrong("subnets", "expected at least one subnet");
  return list.flatMap((value, i): UdnSubnet[] => {
    const at = `subnets[${i}]`;
    const [written] = fields.cidr(`${at}.cidr`, isObject(value) ? value.cidr : undefined);
    if (written === undefined) return [];
    const { cidr } = written;
    const given = isObject(value) ? value.hostSubnet : undefined;
    // Go writes 0 for an unset value.
    if (given === undefined || given === null || given === 0) return [{ cidr, hostSubnet: null }];
    if (typeof given !== "number" || !Number.isInteger(given) || given < 1 || given > HOST_SUBNET_MAX) {
      fields.wrong(`${at}.hostSubnet`, `expected a whole number from 1 to ${HOST_SUBNET_MAX}`);
      return [{ cidr, hostSubnet: null }];
    }
    if (given <= cidr.prefixLength) fields.wrong(at, "HostSubnet must be smaller than CIDR subnet");
    if (cidr.family === 4 && given >= IPV4_BITS) fields.wrong(at, "HostSubnet must < 32 for ipv4 CIDR");
    return [{ cidr, hostSubnet: given }];
  });
}

function refuseManySecondary(fields: UdnFields, subnets: readonly UdnSubnet[]): void {
  if (subnets.length > SECONDARY_SUBNETS_MAX)
    fields.wrong("", "Secondary networks may define at most 2 subnets");
  const [a, b] = subnets;
  if (a && b && subnets.length === 2 && a.cidr.family === b.cidr.family)
    fields.wrong("", "When 2 CIDRs are set for Secondary networks, they must be from different IP families");
}

function refuseOverlaps(fields: UdnFields, subnets: readonly UdnSubnet[]): void {
  const texts = subnets.map(({ cidr }) => formatCidr(cidr));
  if (new Set(texts).size < texts.length) fields.wrong("", "Subnets with same CIDR are not allowed");
  const cidrs = subnets.map(({ cidr }) => cidr);
  const contained = (a: Cidr, b: Cidr) => formatCidr(a) !== formatCidr(b) && holdsCidr(a, b);
  if (cidrs.some((a) => cidrs.some((b) => contained(a, b))))
    fields.wrong("", "Subnets must not overlap or contain each other");
  for (const family of [4, 6]) {
    const hostSubnets = subnets
      .filter(({ cidr }) => cidr.family === family)
      .map(({ hostSubnet }) => hostSubnet);
    if (new Set(hostSubnets).size <= 1) continue;
    fields.wrong("", "Subnets from the same IP family must use the same hostSubnet value");
    return;
  }
}
