import { readIpam, readMtu } from "./common-rules.ts";
import type { UdnFacts } from "./udn-facts.ts";
import type { UdnFields } from "./udn-fields.ts";

const EXCLUDE_MAX = 25;
const NAME_CHARS_MAX = 253;
const VLAN_MAX = 4_094;

/** Reads `localnet`, a network of the nodes' physical interfaces. Always Secondary. */
export function readLocalnet(fields: UdnFields): UdnFacts | null {
  const role = fields.oneOf("role", ["Secondary"], null);
  const cidrs = fields.dualStackCidrs("subnets").map(({ cidr }) => cidr);
  const mtu = readMtu(fields, cidrs);
  const ipam = readIpam(fields);
  if ((ipam.ipamMode === "Enabled") !== fields.has("subnets"))
    fields.wrong("", "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise");
  const excluded = fields.cidrs("excludeSubnets", EXCLUDE_MAX).map(({ cidr }) => cidr);
  if (fields.has("excludeSubnets") && !fields.has("subnets"))
    fields.wrong("", "excludeSubnets must be unset when subnets is unset");
  const physicalNetworkName = readPhysicalNetwork(fields);
  const vlan = readVlan(fields);
  if (role === null) return null;
  return {
    topology: "Localnet",
    role,
    mtu,
    subnets: cidrs.map((cidr) => ({ cidr, hostSubnet: null })),
    excludeSubnets: excluded,
    reservedSubnets: [],
    infrastructureSubnets: [],
    defaultGatewayIPs: [],
    ...ipam,
    physicalNetworkName,
    vlan,
  };
}

function readPhysicalNetwork(fields: UdnFields): string | null {
  const name = fields.object.physicalNetworkName;
  const right =
    typeof name === "string" && name !== "" && name.length <= NAME_CHARS_MAX && !/[,:]/.test(name);
  if (right) return name;
  fields.wrong(
    "physicalNetworkName",
    `expected a name of 1 to ${NAME_CHARS_MAX} characters without "," and ":"`,
  );
  return null;
}

function readVlan(fields: UdnFields): number | null {
  if (!fields.has("vlan")) return null;
  const vlan = fields.section("vlan");
  if (vlan.oneOf("mode", ["Access"], null) === null) return null;
  const access = vlan.section("access");
  const id = access.whole("id", 1, VLAN_MAX);
  if (!access.has("id")) access.wrong("id", `expected a VLAN from 1 to ${VLAN_MAX}`);
  return id;
}
