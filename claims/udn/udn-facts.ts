import type { Address } from "../../ipam/space/address.ts";
import type { Cidr } from "../../ipam/space/cidr.ts";

export type UdnTopology = "Layer2" | "Layer3" | "Localnet";
type UdnRole = "Primary" | "Secondary";

/** The content of a (Cluster)UserDefinedNetwork. */
export interface UdnFacts {
  readonly topology: UdnTopology;
  readonly role: UdnRole;
  /** null: OVN-Kubernetes' default. */
  readonly mtu: number | null;
  readonly subnets: readonly UdnSubnet[];
  readonly excludeSubnets: readonly Cidr[];
  /** Allocated only on request. */
  readonly reservedSubnets: readonly Cidr[];
  /** Never given to workloads. */
  readonly infrastructureSubnets: readonly Cidr[];
  readonly defaultGatewayIPs: readonly Address[];
  readonly ipamMode: "Enabled" | "Disabled" | "DHCP";
  readonly allowPersistentIPs: boolean;
  readonly physicalNetworkName: string | null;
  /** Access VLAN of a localnet. */
  readonly vlan: number | null;
}

export interface UdnSubnet {
  readonly cidr: Cidr;
  /** Prefix length of each node's part of a Layer3 network; null: another topology, or OVN-Kubernetes' default. */
  readonly hostSubnet: number | null;
}
