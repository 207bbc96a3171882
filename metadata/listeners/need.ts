import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formatCidr, formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Attachment } from "../../store/records.ts";
import { isOther, type KeptPlan, planAttachmentKey } from "./bridge-plan.ts";
import type { WantedAttachment, WantedListener } from "./wire.ts";

/** The listener that a network needs on this node; null: none. */
export function listenerNeeded(
  definition: NetworkDefinition | undefined,
  plan: KeptPlan,
  attachments: readonly Attachment[],
): WantedListener | null {
  if (definition?.metadata?.kind !== "on") return null;
  const wanted = attachments.flatMap((one): WantedAttachment[] => {
    if (isOther(plan, planAttachmentKey(one))) return [];
    const { containerId, interface: name, netns, mac } = one;
    // One without IPv4 is not served, but its port is kept from neighbours that claim a metadata service's IPv6
    // address.
    return [{ containerId, interface: name, netns: netns.path, addresses: ipv4Of(one), mac }];
  });
  if (wanted.every(({ addresses }) => addresses.length === 0)) return null;
  const { bridge, vlan, preserveDefaultVlan, mtu } = plan;
  return {
    network: definition.name,
    bridge,
    vlan,
    preserveDefaultVlan,
    mtu,
    address: formatInterfaceAddress(definition.metadata.address),
    subnets: subnetsOf(definition),
    attachments: wanted,
  };
}

/** IPv4 addresses of an attachment, without mask. */
export function ipv4Of({ ips }: Pick<Attachment, "ips">): string[] {
  // Cut from the canonical text: this is done for every attachment of a network at each of its changes.
  return ips.flatMap(({ address }) =>
    address.includes(":") ? [] : [address.slice(0, address.indexOf("/"))],
  );
}

/** The IPv4 subnets, that of the reserved address first. */
function subnetsOf({ rangeSets, metadata }: NetworkDefinition): string[] {
  const subnets = rangeSets.filter(({ family }) => family === 4).flatMap((set) => set.subnets);
  const reserved = metadata?.kind === "on" ? metadata.address.address.value : 0n;
  const own = subnets.find(({ extent }) => extent.contains(reserved));
  const ordered = own === undefined ? subnets : [own, ...subnets.filter((one) => one !== own)];
  return [...new Set(ordered.map(({ cidr }) => formatCidr(cidr)))];
}
