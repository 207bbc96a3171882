import { formatAddress, parseAddress } from "../../../ipam/space/address.ts";

/** A network's listener, and who may speak with it. */
export interface FirewallListener {
  /** Port of the bridge. */
  readonly link: string;
  /** Reserved address, without mask. */
  readonly reserved: string;
  readonly guests: readonly FirewallGuest[];
}

interface FirewallGuest {
  /** Port of the bridge. */
  readonly port: string;
  /** IPv4 addresses, without mask. */
  readonly addresses: readonly string[];
}

const METADATA = "169.254.169.254";

/**
 * Mark of frames that the rules admitted to a listener. The gate of the listener's link (listener-gate.ts) passes
 * nothing without it, so that without the rules nothing arrives. It has none of the bits that kube-proxy (0x4000,
 * 0x8000), Calico (the upper half) or Cilium (0x0f00) give a meaning to.
 */
export const ADMITTED_MARK = 0x6d;

/**
 * Where IPv6 guests look for metadata (cloud-init from 24.2 before 169.254.169.254; EC2). Nothing here serves them, so
 * on ports of VMs nobody may: whoever claims one would be the metadata service of its neighbours.
 */
const METADATA_IPV6 = ["fe80::a9fe:a9fe", "fd00:ec2::254"].map((text) => parseAddress(text));

/** Elements by set, in order. */
export type FirewallSets = Readonly<Record<keyof typeof SETS, readonly string[]>>;

const SETS = {
  listeners: { type: "ifname", says: "Ports of listeners." },
  ports: { type: "ifname", says: "Ports of VMs." },
  members: { type: "ifname . ifname", says: "Listener and port of the same network." },
  guests: {
    type: "ifname . ifname . ipv4_addr",
    says: "Listener, port, and an address that the VM there has.",
  },
  own: { type: "ifname . ipv4_addr", says: "Listener, and an address of it." },
  kept: {
    type: "ifname . ipv4_addr",
    says: "Port of a VM, and an address that there means the listener and nobody else.",
  },
} as const;
const SET_NAMES = Object.keys(SETS) as (keyof typeof SETS)[];

export function firewallSets(listeners: readonly FirewallListener[]): FirewallSets {
  const pairs = listeners.flatMap((listener) => listener.guests.map((guest) => ({ ...listener, ...guest })));
  const unique = (elements: readonly string[]) => [...new Set(elements)].sort();
  return {
    listeners: unique(listeners.map(({ link }) => `"${link}"`)),
    ports: unique(pairs.map(({ port }) => `"${port}"`)),
    members: unique(pairs.map(({ link, port }) => `"${link}" . "${port}"`)),
    guests: unique(
      pairs.flatMap(({ link, port, addresses }) => addresses.map((one) => `"${link}" . "${port}" . ${one}`)),
    ),
    own: unique(
      listeners.flatMap(({ link, reserved }) => [METADATA, reserved].map((one) => `"${link}" . ${one}`)),
    ),
    kept: unique(
      pairs.flatMap(({ port, reserved }) => [METADATA, reserved].map((one) => `"${port}" . ${one}`)),
    ),
  };
}

/**
 * Text for `nft -f -` that brings the table, which is there, from one state to another. Empty: there is nothing to do.
 */
export function firewallChange(table: string, before: FirewallSets, after: FirewallSets): string {
  const change = (verb: string, name: keyof typeof SETS, from: readonly string[], to: readonly string[]) => {
    const known = new Set(from);
    const elements = to.filter((element) => !known.has(element));
    return elements.length === 0
      ? ""
      : `${verb} element bridge ${table} ${name} { ${elements.join(", ")} }\n`;
  };
  return SET_NAMES.map(
    (name) =>
      change("delete", name, after[name], before[name]) + change("add", name, before[name], after[name]),
  ).join("");
}

/**
 * Text for `nft -f -` that puts the table in the place of what is there, in one transaction. A VM is who the port and
 * the address together say: only recorded pairs reach the listener, and only they are reached from it. The two
 * addresses of the listener mean nobody else on ports of VMs, whoever claims them and wherever the frame would go.
 */
export function firewallText(table: string, sets: FirewallSets): string {
  const empty = `table bridge ${table} {}\ndelete table bridge ${table}\n`;
  return sets.listeners.length === 0 ? empty : empty + tableText(table, sets);
}

/** Text for `nft -f -` that makes the table, and is refused as a whole when there is one. */
export function firewallRestoreText(table: string, sets: FirewallSets): string {
  return `create table bridge ${table}\n${tableText(table, sets)}`;
}

/**
 * Text for `nft -f -`, beside the rules: with `bridge-nf-call-iptables`, what is bridged passes the host's NAT, and a
 * masquerading rule (the bridge plugin's `ipMasq`) would give a request the address of the bridge. A translation to the
 * address that it has comes before it. Not "notrack": rules that accept answers by their connection would not know
 * them.
 */
export function natText(table: string, wanted: boolean): string {
  const empty = `table ip ${table} {}\ndelete table ip ${table}\n`;
  if (!wanted) return empty;
  return `${empty}table ip ${table} {
	chain postrouting {
		type nat hook postrouting priority 99; policy accept;
		meta mark ${ADMITTED_MARK} ip daddr ${METADATA} snat to ip saddr
	}
}
`;
}

function tableText(table: string, sets: FirewallSets): string {
  const raw = METADATA_IPV6.map(({ value }) => `0x${value.toString(16)}`).join(", ");
  return `table bridge ${table} {
	# Addresses that mean a metadata service, and nobody on a port of a VM.
	set metadata6 {
		type ipv6_addr
		elements = { ${METADATA_IPV6.map(formatAddress).join(", ")} }
	}

${SET_NAMES.map((name) => set(name, sets[name])).join("\n")}
	chain forward {
		type filter hook forward priority -200; policy accept;
		iifname @listeners goto from_listener
		oifname @listeners goto to_listener
		iifname @ports jump from_port
		oifname @ports jump to_port
	}

	# Behind br_netfilter (priority 0), whose rules may set marks of their own. What was not admitted was dropped above.
	chain admitted {
		type filter hook forward priority 200; policy accept;
		oifname @listeners meta mark set ${ADMITTED_MARK}
	}

	chain from_listener {
		meta protocol ip iifname . oifname . ip daddr @guests accept
		meta protocol arp iifname . oifname . arp daddr ip @guests accept
		# To a VM that asks whether the address is free before it would use it.
		meta protocol arp arp operation reply arp daddr ip 0.0.0.0 iifname . oifname @members accept
		drop
	}

	chain to_listener {
		meta protocol ip ip protocol { tcp, icmp } oifname . iifname . ip saddr @guests oifname . ip daddr @own accept
		meta protocol arp oifname . iifname . arp saddr ip @guests accept
		meta protocol arp arp operation request arp saddr ip 0.0.0.0 oifname . iifname @members oifname . arp daddr ip @own accept
		drop
	}

	chain from_port {
		meta protocol arp iifname . arp daddr ip @kept drop
		meta protocol arp iifname . arp saddr ip @kept drop
		meta protocol ip iifname . ip daddr @kept drop
		meta protocol ip iifname . ip saddr @kept drop
		jump claimed6
		jump hidden
	}

	chain to_port {
		meta protocol arp oifname . arp saddr ip @kept drop
		meta protocol ip oifname . ip saddr @kept drop
		jump claimed6
		jump hidden
	}

	# What claims or asks for an IPv6 address of a metadata service: as source or destination, as the target of a neighbour
	# solicitation or advertisement, or as either address of a redirect. "meta protocol": what nft would put there by itself does not
	# see through a priority tag.
	chain claimed6 {
		meta protocol ip6 ip6 saddr @metadata6 drop
		meta protocol ip6 ip6 daddr @metadata6 drop
		meta protocol ip6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } @th,64,128 { ${raw} } drop
		meta protocol ip6 icmpv6 type nd-redirect @th,192,128 { ${raw} } drop
		# In fragments these are ignored by whoever follows RFC 6980; some old receiver does not.
		meta protocol ip6 exthdr frag exists icmpv6 type 133-137 drop
	}

	# A priority tag within another tag: a receiver takes off both, and the rules above would not have seen what is inside.
	chain hidden {
		meta protocol { 8021q, 8021ad } @nh,4,12 0 drop
		# So does some receiver with the older frame of IEEE 802 (LLC, SNAP).
		meta protocol 0x0004 @nh,0,48 0xaaaa03000000 drop
	}

	# To the host.
	chain input {
		type filter hook input priority -200; policy accept;
		iifname @listeners drop
		iifname @ports jump from_port
	}

	# From the host.
	chain output {
		type filter hook output priority -200; policy accept;
		oifname @listeners drop
		oifname @ports jump to_port
	}
}
`;
}

function set(name: keyof typeof SETS, elements: readonly string[]): string {
  const { type, says } = SETS[name];
  const list = elements.length === 0 ? "" : `\n\t\telements = { ${elements.join(",\n\t\t\t")} }`;
  return `\t# ${says}\n\tset ${name} {\n\t\ttype ${type}${list}\n\t}\n`;
}
