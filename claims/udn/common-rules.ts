import { type Cidr, cidrFirst, cidrLast } from "../../ipam/space/cidr.ts";
import type { UdnFacts } from "./udn-facts.ts";
import type { UdnFields } from "./udn-fields.ts";

const MTU_MIN = 576;
const MTU_MAX = 65_536;
/** Minimum MTU of IPv6 (RFC 8200). */
const MTU_IPV6_MIN = 1_280;

/** Rules shared by several topologies. */

export function readMtu(fields: UdnFields, subnets: readonly Cidr[]): number | null {
  const mtu = fields.whole("mtu", MTU_MIN, MTU_MAX);
  if (mtu !== null && mtu < MTU_IPV6_MIN && subnets.some(({ family }) => family === 6))
    fields.wrong("", "MTU should be greater than or equal to 1280 when IPv6 subnet is used");
  return mtu;
}

export function readRole(fields: UdnFields): UdnFacts["role"] | null {
  return fields.oneOf("role", ["Primary", "Secondary"], null);
}

/** `ipam` of a layer2 or localnet network. */
export function readIpam(fields: UdnFields): Pick<UdnFacts, "ipamMode" | "allowPersistentIPs"> {
  const ipam = fields.section("ipam");
  const ipamMode = ipam.oneOf("mode", ["Enabled", "Disabled", "DHCP"], "Enabled") ?? "Enabled";
  // Go writes an empty string for an unset value.
  const persistent = ipam.has("lifecycle") && ipam.oneOf("lifecycle", ["Persistent"], null) === "Persistent";
  if (fields.has("ipam") && Object.keys(ipam.object).length === 0)
    ipam.wrong("", "expected at least one of mode and lifecycle");
  if (persistent && ipamMode !== "Enabled")
    ipam.wrong("", "lifecycle Persistent is only supported when ipam.mode is Enabled");
  return { ipamMode, allowPersistentIPs: persistent && ipamMode === "Enabled" };
}

export function readJoinSubnets(fields: UdnFields, role: UdnFacts["role"] | null): void {
  fields.dualStackCidrs("joinSubnets");
  if (fields.has("joinSubnets") && role !== "Primary")
    fields.wrong("", "JoinSubnets is only supported for Primary network");
}

export function holdsCidr(outer: Cidr, inner: Cidr): boolean {
  return (
    outer.family === inner.family &&
    cidrFirst(inner) >= cidrFirst(outer) &&
    cidrLast(inner) <= cidrLast(outer)
  );
}
