import { formatPortAddress, type PortAddress, portPrefix6 } from "../../kernel/port-address.ts";
import { METADATA_IPV4, METADATA_IPV6 } from "../driver.ts";

/** The other address that guests ask for their metadata (EC2 by IPv6). Nobody serves it here, nor claims it. */
const EC2_IPV6 = "fd00:ec2::254";
/** Above what others write: only frames from and to the metadata service ever match. */
const PRIORITY = 65_500;
/** 802.1Q reserves it, so no network has it: the VLAN of the door, where no frame is flooded without our flows. */
export const DOOR_VLAN = 4095;
/** reg15 of a frame that has been found to be none of ours, and goes through table 0 once more. */
const NOT_OURS = 1;
const MULTICAST = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";
const UNTAGGED = "vlan_tci=0x0000/0x1000";
/** Without a tag, or with one that only has a priority. */
const NO_VLAN = "vlan_tci=0x0000/0x0fff";

/**
 * Tables of ours, beside table 0 where all begins. Frames that neither go to the metadata service nor claim to come
 * from it never leave the pipeline of others.
 *
 *   0 --- from the door ------------------------> BACK: one port's D or prefix -> its guest
 *     --- claims to be the service -------------> CLAIMS: from or to a port of ours: dropped; else table 0 again
 *     --- has a tag below its tag --> NESTED: without a VLAN, from or to a port of ours: dropped; else table 0 again
 *     --- asks for the service -> PORTS: which D? -> ASK: rewritten -> door, or answered (ARP, NS -> ADVERTISE)
 *                                 none: table 0 again
 */
const TABLE = { back: 200, claims: 201, ports: 202, ask: 203, advertise: 204, nested: 205 } as const;

/** By table, priority and match. Values are set by `set_field`: OpenFlow 1.5 gives `load` back as another action. */
export type Flows = ReadonlyMap<string, string>;

export interface BridgePlan {
  /** Number of the door's port; null: nobody answers, and what is asked is dropped. */
  readonly door: number | null;
  readonly serviceMac: string;
  readonly secretMac: string;
  readonly doorMac: string;
  readonly guests: readonly GuestFlowPort[];
  /** Ports of the bridge that are nobody's, and the VLAN of their frames without a tag; 0: none. */
  readonly others: readonly { readonly ofport: number; readonly untaggedVlan: number }[];
}

export interface GuestFlowPort {
  readonly ofport: number;
  readonly address: PortAddress;
  readonly mac: string;
  readonly untaggedVlan: number;
}

/** All flows of a bridge. Without guests there are none. */
export function bridgeFlows(plan: BridgePlan): Flows {
  const flows = new Map<string, string>();
  if (plan.guests.length === 0) return flows;
  const add = (table: number, above: number, match: string, actions: string) =>
    flows.set([`table=${table},priority=${PRIORITY + above}`, match].filter(Boolean).join(), actions);
  addEntry(add, plan);
  if (plan.door !== null) addAsk(add, plan, plan.door);
  for (const guest of plan.guests) addGuest(add, plan, guest);
  addClaims(add, plan);
  return flows;
}

type Add = (table: number, above: number, match: string, actions: string) => void;

/** Table 0: takes out what concerns the metadata service. */
function addEntry(add: Add, { door }: BridgePlan): void {
  if (door !== null) add(0, 30, `in_port=${door}`, `resubmit(,${TABLE.back})`);
  add(0, 20, `dl_vlan=${DOOR_VLAN}`, "drop");
  for (const claim of CLAIMS) add(0, 10, `reg15=0,${claim}`, `resubmit(,${TABLE.claims})`);
  // What is below the tags that the switch reads may be a claim, and guests take tags without a VLAN off.
  for (const tag of ["0x8100", "0x88a8"]) add(0, 10, `reg15=0,dl_type=${tag}`, `resubmit(,${TABLE.nested})`);
  for (const question of [
    `arp,arp_op=1,arp_tpa=${METADATA_IPV4}`,
    `ip,nw_dst=${METADATA_IPV4}`,
    `icmp6,icmp_type=135,nd_target=${METADATA_IPV6}`,
    `ipv6,ipv6_dst=${METADATA_IPV6}`,
  ])
    add(0, 0, `reg15=0,${UNTAGGED},${question}`, `resubmit(,${TABLE.ports})`);
  for (const table of [TABLE.claims, TABLE.ports, TABLE.nested])
    add(table, 0, "", `set_field:${NOT_OURS}->reg15,resubmit(,0)`);
}

/** Frames that say they come from an address of the metadata service. */
const CLAIMS: readonly string[] = [
  `arp,arp_spa=${METADATA_IPV4}`,
  `ip,nw_src=${METADATA_IPV4}`,
  ...[METADATA_IPV6, EC2_IPV6].flatMap((address) => [
    `ipv6,ipv6_src=${address}`,
    `icmp6,icmp_type=136,nd_target=${address}`,
  ]),
  // Redirects, of which no flow can see whom they name. Nobody depends on one.
  "icmp6,icmp_type=137",
];

/** What becomes of a question; D is in reg14. */
function addAsk(add: Add, { serviceMac, secretMac, doorMac }: BridgePlan, door: number): void {
  const toDoor = `set_field:${secretMac}->eth_src,set_field:${doorMac}->eth_dst`;
  add(TABLE.ask, 10, "arp", answerArp(METADATA_IPV4, serviceMac));
  // Nothing else: an error of ICMP could lower the path MTU of an address that a neighbour has, too.
  for (const served of ["tcp", "icmp,icmp_type=8"])
    add(TABLE.ask, 10, served, `${toDoor},move:NXM_NX_REG14[]->NXM_OF_IP_DST[],output:${door}`);
  // fe80::X becomes fd00:6d64:D::X; the upper 32 bits first.
  const prefix = "set_field:fd00:6d64::/ffff:ffff::->ipv6_src,move:NXM_NX_REG14[]->NXM_NX_IPV6_SRC[64..95]";
  for (const served of ["tcp6", "icmp6,icmp_type=128"])
    add(TABLE.ask, 10, `${served},ipv6_src=fe80::/64`, `${toDoor},${prefix},output:${door}`);
  // The solicitation becomes the advertisement: solicited, override. Its option can be set once it is one.
  const toAdvertisement = [
    "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
    `set_field:${serviceMac}->eth_src`,
    "move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[]",
    `set_field:${METADATA_IPV6}->ipv6_src`,
    "set_field:136->icmpv6_type",
    "set_field:0x60000000->nd_reserved",
    "set_field:2->nd_options_type",
    `resubmit(,${TABLE.advertise})`,
  ].join();
  add(TABLE.ask, 20, "icmp6,icmp_type=135,ipv6_src=fe80::/64", toAdvertisement);
  add(TABLE.advertise, 0, "icmp6,icmp_type=136", `set_field:${serviceMac}->nd_tll,in_port`);
}

/** The question becomes the answer, and goes back where it came from. */
function answerArp(address: string, mac: string): string {
  return [
    "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
    `set_field:${mac}->eth_src`,
    "set_field:2->arp_op",
    "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]",
    "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]",
    `set_field:${mac}->arp_sha`,
    `set_field:${address}->arp_spa`,
    "in_port",
  ].join();
}

function addGuest(add: Add, { door, serviceMac }: BridgePlan, guest: GuestFlowPort): void {
  const { ofport, address, mac } = guest;
  // With another MAC it could not be answered: then nothing is asked either.
  add(TABLE.ports, 10, `in_port=${ofport}`, "drop");
  if (door !== null) {
    const d = `set_field:0x${address.toString(16)}->reg14`;
    add(TABLE.ports, 20, `in_port=${ofport},dl_src=${mac}`, `${d},resubmit(,${TABLE.ask})`);
    const toGuest = `set_field:${serviceMac}->eth_src,set_field:${mac}->eth_dst`;
    const own = formatPortAddress(address);
    add(TABLE.back, 0, `ip,nw_src=${own}`, `${toGuest},set_field:${METADATA_IPV4}->ip_src,output:${ofport}`);
    const local = "set_field:fe80::/ffff:ffff:ffff:ffff::->ipv6_dst";
    add(TABLE.back, 0, `ipv6,ipv6_dst=${portPrefix6(address)}/64`, `${toGuest},${local},output:${ofport}`);
  }
  add(TABLE.claims, 30, `in_port=${ofport}`, "drop");
  add(TABLE.claims, 20, `dl_dst=${mac}`, "drop");
  for (const vlan of [NO_VLAN, ...(guest.untaggedVlan === 0 ? [] : [`dl_vlan=${guest.untaggedVlan}`])]) {
    add(TABLE.nested, 30, `in_port=${ofport},${vlan}`, "drop");
    add(TABLE.nested, 20, `dl_dst=${mac},${vlan}`, "drop");
  }
}

/** Claims of others that would be flooded to a guest: those in its VLAN. */
function addClaims(add: Add, { guests, others }: BridgePlan): void {
  const vlans = new Set(guests.map(({ untaggedVlan }) => untaggedVlan));
  for (const table of [TABLE.claims, TABLE.nested]) {
    for (const vlan of vlans) if (vlan !== 0) add(table, 10, `dl_vlan=${vlan},${MULTICAST}`, "drop");
    for (const { ofport, untaggedVlan } of others)
      if (vlans.has(untaggedVlan)) add(table, 10, `in_port=${ofport},${NO_VLAN},${MULTICAST}`, "drop");
  }
}

/** Lines for `ovs-ofctl --bundle add-flows`, which bring the switch from one state to another. "": they are equal. */
export function changeText(cookie: string, { from, to }: { readonly from: Flows; readonly to: Flows }): string {
  const gone = [...from.keys()].filter((match) => !to.has(match));
  const fresh = [...to].filter(([match, actions]) => from.get(match) !== actions);
  return [
    ...gone.map((match) => `delete_strict cookie=${cookie}/-1,${match}`),
    ...fresh.map(([match, actions]) => `add ${flowLine(cookie, match, actions)}`),
  ]
    .map((line) => `${line}\n`)
    .join("");
}

/** Lines for `ovs-ofctl diff-flows`. */
export function flowsText(cookie: string, flows: Flows): string {
  return [...flows].map(([match, actions]) => `${flowLine(cookie, match, actions)}\n`).join("");
}

function flowLine(cookie: string, match: string, actions: string): string {
  return `cookie=${cookie},${match} actions=${actions}`;
}

/** Of what `ovs-ofctl diff-flows SWITCH OURS` printed. Flows of others are in the switch only, without our cookie. */
export function repairText(cookie: string, diff: string): string {
  const lines = diff.split("\n");
  const missing = lines.filter((line) => line.startsWith("+")).map((line) => line.slice(1));
  const keyOf = (line: string) => line.slice(0, line.indexOf(" actions=")).replace(/ cookie=\S+/, "");
  const replaced = new Set(missing.map(keyOf));
  const surplus = lines
    .filter((line) => line.startsWith("-") && line.includes(` cookie=${cookie} `))
    .map((line) => keyOf(line.slice(1)))
    .filter((key) => !replaced.has(key));
  return [...surplus.map((key) => `delete_strict cookie=${cookie}/-1,${key}`), ...missing.map((line) => `add ${line}`)]
    .map((line) => `${line}\n`)
    .join("");
}
