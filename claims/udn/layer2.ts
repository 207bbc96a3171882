import { type Cidr, cidrContains } from "../../ipam/space/cidr.ts";
import { holdsCidr, readIpam, readJoinSubnets, readMtu, readRole } from "./common-rules.ts";
import type { UdnFacts } from "./udn-facts.ts";
import type { CidrField, UdnFields } from "./udn-fields.ts";

const RESERVED_MAX = 25;
const INFRASTRUCTURE_MAX = 4;

/** Reads `layer2`; null: its role is not known. */
export function readLayer2(fields: UdnFields): UdnFacts | null {
  const role = readRole(fields);
  const cidrs = fields.dualStackCidrs("subnets").map(({ cidr }) => cidr);
  const mtu = readMtu(fields, cidrs);
  const ipam = readIpam(fields);
  refuseWrongMode(fields, role, ipam.ipamMode);
  readJoinSubnets(fields, role);
  const context = { fields, role, cidrs };
  const reserved = readCutouts(context, "reservedSubnets", RESERVED_MAX);
  const infrastructure = readCutouts(context, "infrastructureSubnets", INFRASTRUCTURE_MAX);
  if (infrastructure.some((infra) => reserved.some((one) => holdsCidr(infra, one) || holdsCidr(one, infra))))
    fields.wrong("", "infrastructureSubnets and reservedSubnets must not overlap");
  const gateways = readGateways(context, infrastructure);
  if (role === null) return null;
  return {
    topology: "Layer2",
    role,
    mtu,
    subnets: cidrs.map((cidr) => ({ cidr, hostSubnet: null })),
    excludeSubnets: [],
    reservedSubnets: reserved,
    infrastructureSubnets: infrastructure,
    defaultGatewayIPs: gateways,
    ...ipam,
    physicalNetworkName: null,
    vlan: null,
  };
}

interface Context {
  readonly fields: UdnFields;
  readonly role: UdnFacts["role"] | null;
  readonly cidrs: readonly Cidr[];
}

function refuseWrongMode(fields: UdnFields, role: Context["role"], mode: UdnFacts["ipamMode"]): void {
  if (mode === "Enabled" && !fields.has("subnets"))
    fields.wrong("", "Subnets is required with ipam.mode is Enabled or unset");
  if (mode === "Disabled" && fields.has("subnets"))
    fields.wrong("", "Subnets must be unset when ipam.mode is Disabled");
  if (mode === "Disabled" && role !== "Secondary")
    fields.wrong("", "Disabled ipam.mode is only supported for Secondary network");
  if (mode === "DHCP")
    fields.wrong("", "DHCP ipam.mode is not supported for Layer2 topology, use Localnet topology instead");
}

function readCutouts(
  { fields, role, cidrs }: Context,
  key: "reservedSubnets" | "infrastructureSubnets",
  countMax: number,
): Cidr[] {
  const cutouts: readonly CidrField[] = fields.cidrs(key, countMax);
  if (!fields.has(key)) return [];
  if (!fields.has("subnets")) fields.wrong("", `${key} must be unset when subnets is unset`);
  if (role !== "Primary") fields.wrong("", `${key} is only supported for Primary network`);
  if (cidrs.length > 0 && !cutouts.every((one) => cidrs.some((cidr) => holdsCidr(cidr, one.cidr))))
    fields.wrong(key, `${key} must be subnetworks of the networks specified in the subnets field`);
  if (!cutouts.every(({ masked }) => masked))
    fields.wrong("", `${key} must be a masked network address (no host bits set)`);
  return cutouts.map(({ cidr }) => cidr);
}

function readGateways({ fields, role, cidrs }: Context, infrastructure: readonly Cidr[]) {
  const key = "defaultGatewayIPs";
  const gateways = fields.dualStackIPs(key);
  if (!fields.has(key)) return [];
  if (role !== "Primary") fields.wrong("", `${key} is only supported for Primary network`);
  const within = (networks: readonly Cidr[]) =>
    gateways.every((ip) => networks.some((cidr) => cidrContains(cidr, ip)));
  if (!within(cidrs))
    fields.wrong("", `${key} must belong to one of the subnets specified in the subnets field`);
  if (gateways.length !== cidrs.length) fields.wrong("", `${key} must be specified for all IP families`);
  if (fields.has("infrastructureSubnets") && !within(infrastructure))
    fields.wrong("", `${key} have to belong to infrastructureSubnets`);
  return gateways;
}
