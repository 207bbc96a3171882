import { isInterfaceName } from "../../../ipam/definition/interface-name.ts";
import { isNetworkName } from "../../../ipam/definition/plugin-config.ts";
import { formatAddress, parseAddress } from "../../../ipam/space/address.ts";
import { type Cidr, formatCidr, networkOf, parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { WantedAttachment, WantedListener } from "../../listeners/wire.ts";
import { type ListenerNames, listenerNames, type Names } from "./names.ts";

/** The parts of a network's listener on this node: validated for use in commands and configurations. */
export interface ListenerPlan extends ListenerNames {
  readonly network: string;
  readonly bridge: string;
  readonly vlan: number | null;
  readonly preserveDefaultVlan: boolean;
  /** null: the bridge's. */
  readonly mtu: number | null;
  /** The reserved address with its mask, `10.0.0.254/24`. */
  readonly address: string;
  /** The same without mask. */
  readonly reserved: string;
  /** The network's other IPv4 subnets. */
  readonly otherSubnets: readonly string[];
  readonly attachments: readonly WantedAttachment[];
}

export interface Planned {
  readonly plans: readonly ListenerPlan[];
  /** By network: why it can have no listener. */
  readonly problems: ReadonlyMap<string, string>;
}

/** Networks that cannot have a listener are separated from the others, which are served. */
export function planListeners(names: Names, wanted: readonly WantedListener[]): Planned {
  const plans: ListenerPlan[] = [];
  const problems = new Map<string, string>();
  const taken = new Set<string>();
  for (const one of wanted) {
    const plan = planOf(names, one);
    if (typeof plan === "string") {
      problems.set(one.network, plan);
      continue;
    }
    // A network whose name equals another's hash must not keep that one from its listener.
    let own: ListenerNames = plan;
    for (let attempt = 1; taken.has(own.link) || taken.has(own.mac); attempt += 1)
      own = listenerNames(names, one.network, attempt);
    taken.add(own.link).add(own.mac);
    plans.push({ ...plan, ...own });
  }
  return { plans, problems };
}

function planOf(names: Names, wanted: WantedListener): ListenerPlan | string {
  const { network, bridge, vlan, mtu } = wanted;
  // The CNI rule for names of networks. The name is used in haproxy's configuration and in a header.
  if (!isNetworkName(network))
    return `its name may only have letters, digits, "_", "." and "-"; rename the network`;
  if (!isLinkName(bridge))
    return `${JSON.stringify(bridge)} is no name of a bridge; correct "bridge" in its configuration`;
  if (vlan !== null && !isWhole(vlan, 1, 4094)) return `VLAN ${vlan} is none of 1 to 4094; correct "vlan"`;
  if (mtu !== null && !isWhole(mtu, 68, 65_535)) return `MTU ${mtu} is none of 68 to 65535; correct "mtu"`;
  try {
    const held = parseInterfaceAddress(wanted.address);
    if (held.address.family !== 4) return `the reserved address ${wanted.address} is not IPv4`;
    const own = formatCidr(networkOf(held.address, held.prefixLength));
    return {
      ...listenerNames(names, network),
      network,
      bridge,
      vlan,
      preserveDefaultVlan: wanted.preserveDefaultVlan,
      mtu,
      address: wanted.address,
      reserved: formatAddress(held.address),
      otherSubnets: wanted.subnets
        .map(ipv4Subnet)
        .map(formatCidr)
        .filter((subnet) => subnet !== own),
      attachments: wanted.attachments.map(ipv4Only),
    };
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Whether the kernel accepts it as the name of a link, and nft and ip as one word. ip treats # as the start of a
 * comment.
 */
export function isLinkName(name: string): boolean {
  return isInterfaceName(name) && !/^-|["'\\*$,{}#]/.test(name);
}

function ipv4Subnet(text: string): Cidr {
  const { address, prefixLength } = parseInterfaceAddress(text);
  if (address.family !== 4) throw new Error(`subnet ${text} is not IPv4`);
  return networkOf(address, prefixLength);
}

function ipv4Only(attachment: WantedAttachment): WantedAttachment {
  const parsed = attachment.addresses.map(parseAddress);
  return { ...attachment, addresses: parsed.filter(({ family }) => family === 4).map(formatAddress) };
}

function isWhole(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max;
}
