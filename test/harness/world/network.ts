import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { allocationName } from "../../../kube/object-names.ts";
import type { CniAnswer } from "../daemon.ts";

/** The namespace of the tests. */
export const NAMESPACE = "shop";

/** A network as tests use it: its NAD has the same name, and a runtime passes its configuration on. */
export interface Network {
  readonly name: string;
  readonly config: string;
}

/** The configuration of a network that most tests can use; `plugin` are keys beside the `ipam` block. */
export function configOf(name: string, ipam: object = {}, plugin: object = {}): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    allowPersistentIPs: true,
    ...plugin,
    ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/24", ...ipam },
  });
}

/** The addresses of an answer, with their prefix lengths. */
export function ipsOf(answer: CniAnswer): string[] {
  return answer.json().ips.map((ip: { address: string }) => ip.address);
}

/** The name of an address's IPAllocation. */
export function nameOf(network: string, address: string): string {
  return allocationName(network, parseInterfaceAddress(address).address);
}
