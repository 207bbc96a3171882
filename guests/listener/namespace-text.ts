import { METADATA_IPV6 } from "../drivers/driver.ts";
import { RELAY_PORT } from "../haproxy/haproxy-text.ts";
import { formatPortAddress, PORT_ADDRESSES, type PortAddress } from "../kernel/port-address.ts";

/** Stands for the metadata service towards guests. */
export const SERVICE_MAC = "02:6d:64:00:00:01";
/** Of a door's end in the namespace. */
export const DOOR_MAC = "02:6d:64:00:00:03";
/** The one neighbour that every answer goes to: nobody has it, and the drivers' rules put the guest's in its place. */
export const NOBODY_MAC = "02:6d:64:00:00:02";
/** The same at Open vSwitch: 802.1Q lets no bridge forward it, or a switch without our flows would flood answers. */
const NOBODY_MAC_AT_SWITCH = "01:80:c2:00:00:0d";
const NOBODY = "248.0.0.1";
const NOBODY_6 = "fe80::2";
/** Above those of every port: `fd00:6d64:` and its address. */
const PREFIXES_6 = "fd00:6d64::/32";
/** The least that IPv6 has: answers are small, and a guest with too large an MTU for its network is served as well. */
const INNER_MTU = 1280;
/** A switch takes the least of its ports for its own: never that of the listener. */
export const OUTER_MTU = 65_535;

export interface DoorPlan {
  readonly inner: string;
  /** Upper 16 bits of the addresses behind it. */
  readonly blocks: readonly number[];
  /** Where whatever has no block of another door is answered. */
  readonly isMain: boolean;
  /** Whether its switch floods what has no rules: a Linux bridge knows NOBODY_MAC, and keeps reserved addresses. */
  readonly floods: boolean;
}

/**
 * Set before there is a link: addresses of any source, no answer to ARP, no forwarding, no address that the kernel
 * gives by itself. And bounds for what one guest can keep, beside haproxy's: a connection that haproxy has closed, and
 * whose guest acknowledges nothing, is given up after 1.5 s, not after 100; no buffer grows to megabytes.
 */
export const SYSCTLS: readonly (readonly [key: string, value: string])[] = [
  ["ipv4/ip_forward", "0"],
  ["ipv4/conf/all/rp_filter", "0"],
  ["ipv4/conf/default/rp_filter", "0"],
  ["ipv4/conf/all/arp_ignore", "8"],
  ["ipv4/conf/all/accept_redirects", "0"],
  ["ipv4/conf/default/accept_redirects", "0"],
  ["ipv4/conf/all/send_redirects", "0"],
  ["ipv4/conf/default/send_redirects", "0"],
  ["ipv4/tcp_orphan_retries", "2"],
  ["ipv4/tcp_fin_timeout", "10"],
  ["ipv4/tcp_synack_retries", "2"],
  ["ipv4/tcp_rmem", "4096 65536 262144"],
  ["ipv4/tcp_wmem", "4096 16384 262144"],
  ["ipv6/conf/all/disable_ipv6", "0"],
  ["ipv6/conf/default/disable_ipv6", "0"],
  ["ipv6/conf/all/forwarding", "0"],
  ["ipv6/conf/default/accept_dad", "0"],
  ["ipv6/conf/default/accept_ra", "0"],
  ["ipv6/conf/default/accept_redirects", "0"],
  ["ipv6/conf/default/router_solicitations", "0"],
  ["ipv6/conf/default/addr_gen_mode", "1"],
];

/**
 * For `nft -f -` in the namespace: requests that a driver handed over, and nothing else, are heard. Without a driver's
 * rules nothing is (docs/decisions/0041). Connections to ports of Services are led to haproxy's one socket for all of
 * them, which keeps the port that was asked for (docs/decisions/0095): no reload when one comes or goes.
 */
export function heardText(secretMac: string, servicePorts: readonly number[]): string {
  return `table inet holdfast_metadata {}
delete table inet holdfast_metadata
table inet holdfast_metadata {
	chain heard {
		type filter hook prerouting priority -500; policy drop;
		ether saddr ${secretMac} meta l4proto tcp accept
		ether saddr ${secretMac} icmp type echo-request accept
		ether saddr ${secretMac} icmpv6 type echo-request accept
	}${servicePorts.length === 0 ? "" : ledText(servicePorts)}
}
`;
}

function ledText(ports: readonly number[]): string {
  return `
	chain services {
		type filter hook prerouting priority -150; policy accept;
		tcp dport { ${ports.join(", ")} } ip daddr ${PORT_ADDRESSES} tproxy ip to 127.0.0.1:${RELAY_PORT} accept
	}`;
}

/** For `ip -force -batch -` in the namespace: leaves what is so already, adds what is not there. */
export function doorCommands(plans: readonly DoorPlan[], hasIpv6: boolean): readonly string[] {
  return [
    "link set lo up",
    `route replace local ${PORT_ADDRESSES} dev lo`,
    ...plans.flatMap((plan) => [
      `link set ${plan.inner} mtu ${INNER_MTU} address ${DOOR_MAC} up`,
      `neigh replace ${NOBODY} lladdr ${nobodyMac(plan)} dev ${plan.inner} nud permanent`,
      ...(plan.isMain
        ? [`route replace default via ${NOBODY} dev ${plan.inner} onlink`]
        : plan.blocks.map((block) => `route replace default via ${NOBODY} dev ${plan.inner} onlink table ${block}`)),
      ...(hasIpv6 ? doorCommands6(plan) : []),
    ]),
  ];
}

function nobodyMac({ floods }: DoorPlan): string {
  return floods ? NOBODY_MAC_AT_SWITCH : NOBODY_MAC;
}

function doorCommands6(plan: DoorPlan): readonly string[] {
  const { inner, blocks, isMain } = plan;
  const prefixes = isMain ? [PREFIXES_6] : blocks.map((block) => `fd00:6d64:${block.toString(16)}::/48`);
  return [
    `address replace ${METADATA_IPV6}/64 dev ${inner} nodad`,
    `neigh replace ${NOBODY_6} lladdr ${nobodyMac(plan)} dev ${inner} nud permanent`,
    ...prefixes.map((prefix) => `route replace ${prefix} via ${NOBODY_6} dev ${inner}`),
  ];
}

/** For `ip -force -batch -`: rules that lead answers of a block to its door. They have no "replace". */
export function blockRules(plans: readonly DoorPlan[]): readonly string[] {
  return plans
    .filter(({ isMain }) => !isMain)
    .flatMap(({ blocks }) => blocks)
    .map((block) => `rule add from ${blockNetwork(block)} lookup ${block} priority 100`);
}

/** For `sh -c` in the namespace: whatever somebody else may have put there goes. */
export const EMPTY_SCRIPT = `
ip address flush scope global; ip route flush table all scope global; ip -6 route flush table main
ip rule flush; ip rule add lookup local priority 0; ip rule add lookup main priority 32766
true`;

/** What `doorCommands` and `heardText` decide, for `sh -c` there; not what changes when a link's other end comes up. */
export const SHOW_SCRIPT = `{
ip -o link; ip -o address; ip route show table all; ip -6 route show table main; ip rule
ip -o neigh show nud permanent; ip -6 -o neigh show nud permanent; nft list ruleset
for key in ${SYSCTLS.map(([key]) => key).join(" ")}; do echo $key $(cat /proc/sys/net/$key); done
} 2>/dev/null | sed 's/NO-CARRIER,//; s/,LOWER_UP//; s/,M-DOWN//; s/ state [A-Z]*//; s/ linkdown//; s/ dead//'`;

function blockNetwork(block: number): string {
  return `${formatPortAddress((block * 0x10000) as PortAddress)}/16`;
}
