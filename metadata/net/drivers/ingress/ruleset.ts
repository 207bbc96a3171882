import { createHash } from "node:crypto";
import { parseAddress } from "../../../../ipam/space/address.ts";
import { formatPortAddress, PORT_ADDRESSES, type PortAddress, portPrefix6 } from "../../port-address.ts";
import { type AdmittedPort, METADATA_IPV4, METADATA_IPV6 } from "../driver.ts";

/** EC2's address of IPv6: nothing here serves it, and nobody at a port of a guest may. */
const EC2_IPV6 = "fd00:ec2::254";
/** Whom a guest asks that looks for the MAC of METADATA_IPV6. */
const SOLICITED = "ff02::1:fffe:a9fe";
/** Before everything that an administrator puts there. */
const PRIORITY = -500;

/** What the table knows of ports. `mark`: the number of a port's address D. */
export const SETS = {
  address: { kind: "map", type: "iface_index : ipv4_addr", says: "Link of a guest, and its D." },
  number: { kind: "map", type: "iface_index : mark", says: "The same as a mark." },
  former: {
    kind: "map",
    type: "iface_index . ipv4_addr : mark",
    says: "Address by which the guest there may still have a route, as a mark.",
  },
  gateway: { kind: "map", type: "mark : ipv4_addr", says: "That mark, and the address." },
  answers: {
    kind: "set",
    type: "iface_index . mark",
    says: "Link of a guest, and the mark of what is for it.",
  },
  port: { kind: "map", type: "ipv4_addr : mark", says: "D as the source of answers." },
  port6: {
    kind: "map",
    type: "ipv6_addr : mark",
    says: "Prefix that stands for D, as the destination of answers.",
  },
  mac: { kind: "map", type: "mark : ether_addr", says: "MAC of the guest." },
  link: { kind: "map", type: "mark : iface_index", says: "Link of the guest." },
} as const;
export type SetName = keyof typeof SETS;
export const SET_NAMES = Object.keys(SETS) as readonly SetName[];

export interface ChainText {
  readonly name: string;
  /** Declaration of the hook; empty: others jump to it. */
  readonly hook: string;
  readonly rules: readonly string[];
  /**
   * What the comments of the rules say: each differs when anything of the rule or its chain does. So what is there can
   * be compared with what should be, without knowing how a version of nft prints it.
   */
  readonly digests: readonly string[];
  /** The port that it is for; null: all. */
  readonly address: PortAddress | null;
}

/** The content of the table. */
export interface Ruleset {
  readonly chains: ReadonlyMap<string, ChainText>;
  /** Data by key, for each set; the data of a plain set is empty. Keys and data as nft reads them. */
  readonly elements: Readonly<Record<SetName, ReadonlyMap<string, string>>>;
}

export interface RulesetParts {
  /** Outer end of the door. */
  readonly door: { readonly outer: string; readonly ifindex: number };
  readonly serviceMac: string;
  readonly secretMac: string;
  readonly doorMac: string;
  /** Whether the kernel has the egress hook. */
  readonly egress: boolean;
}

/** Makes the tables for one door; what it made for a port is kept until that changes. */
export class RulesetBuilder {
  readonly #parts: RulesetParts;
  readonly #shared: readonly ChainText[];
  #ports: ReadonlyMap<PortAddress, { readonly port: AdmittedPort; readonly chains: readonly ChainText[] }> =
    new Map();

  constructor(parts: RulesetParts) {
    this.#parts = parts;
    this.#shared = sharedChains(parts);
  }

  /** No two of the ports have the same link. */
  build(ports: readonly AdmittedPort[]): Ruleset {
    const chains = new Map(this.#shared.map((chain) => [chain.name, chain]));
    const elements = Object.fromEntries(SET_NAMES.map((name) => [name, new Map<string, string>()])) as Record<
      SetName,
      Map<string, string>
    >;
    const made = new Map<PortAddress, { port: AdmittedPort; chains: readonly ChainText[] }>();
    for (const admitted of ports) {
      const { address, port } = admitted;
      const known = this.#ports.get(address);
      const same = known?.port.port.link === port.link && known.port.port.ifindex === port.ifindex;
      const own = same ? known.chains : portChains(admitted, this.#parts);
      made.set(address, { port: admitted, chains: own });
      for (const chain of own) chains.set(chain.name, chain);
      for (const [set, key, data] of portElements(admitted)) elements[set].set(key, data);
    }
    this.#ports = made;
    return { chains, elements };
  }
}

function chainText(
  name: string,
  hook: string,
  rules: readonly string[],
  address: PortAddress | null = null,
): ChainText {
  const digests = rules.map((rule) =>
    createHash("sha256").update(`${hook}\n${rule}`).digest("base64url").slice(0, 12),
  );
  return { name, hook, rules, digests, address };
}

/** Messages with a target address. */
const TARGETED = "nd-neighbor-solicit, nd-neighbor-advert, nd-redirect";
/** Of a set of IPv6 addresses in the middle of a header. */
const RAW6 = [METADATA_IPV6, EC2_IPV6].map(raw6).join(", ");

function sharedChains(parts: RulesetParts): readonly ChainText[] {
  const { door, serviceMac, secretMac, doorMac } = parts;
  const handOver = `ether saddr set ${secretMac} ether daddr set ${doorMac} fwd to ${door.ifindex}`;
  // The question becomes the answer, in place.
  const arpAnswer = (sender: string) =>
    [
      `ether daddr set ether saddr ether saddr set ${serviceMac} arp operation set reply`,
      "arp daddr ether set arp saddr ether arp daddr ip set arp saddr ip",
      `arp saddr ether set ${serviceMac} arp saddr ip set ${sender}`,
      "meta mark set iif map @number fwd to meta iif",
    ].join(" ");
  const asks = `meta protocol arp arp operation request arp saddr ip != ${METADATA_IPV4}`;
  const to6 = (to: string) =>
    `meta protocol ip6 ip6 daddr ${to} ip6 saddr fe80::/64 ip6 saddr != ${METADATA_IPV6}`;
  const solicits = [
    to6(`{ ${METADATA_IPV6}, ${SOLICITED} }`),
    `icmpv6 type nd-neighbor-solicit @th,64,128 ${raw6(METADATA_IPV6)} exthdr frag missing`,
  ].join(" ");
  return [
    // Who claims or asks for an address of a metadata service and is not served: as sender or destination, as the target
    // of a neighbour solicitation or advertisement, as either address of a redirect.
    chainText("claims", "", [
      `meta protocol arp arp saddr ip ${METADATA_IPV4} drop`,
      `meta protocol arp arp daddr ip ${METADATA_IPV4} drop`,
      `meta protocol ip ip saddr ${METADATA_IPV4} drop`,
      `meta protocol ip6 ip6 saddr { ${METADATA_IPV6}, ${EC2_IPV6} } drop`,
      `meta protocol ip6 ip6 daddr { ${METADATA_IPV6}, ${EC2_IPV6} } drop`,
      `meta protocol ip6 icmpv6 type { ${TARGETED} } @th,64,128 { ${RAW6} } drop`,
      `meta protocol ip6 icmpv6 type nd-redirect @th,192,128 { ${RAW6} } drop`,
      // In fragments these are ignored by whoever follows RFC 6980; some old receiver does not.
      "meta protocol ip6 exthdr frag exists icmpv6 type 133-137 drop",
      // The rules above see through one tag. A receiver takes off a second one for priority too, and the older frame
      // of IEEE 802 (LLC, SNAP).
      "meta protocol { 8021q, 8021ad } @nh,4,12 0 drop",
      "meta protocol 0x0004 @nh,0,48 0xaaaa03000000 drop",
      "accept",
    ]),
    chainText("arp_service", "", [arpAnswer(METADATA_IPV4)]),
    chainText("arp_former", "", [arpAnswer("meta mark map @gateway")]),
    // Of a guest. Who it is follows from the index of the link: another link of that name is nobody. It returns with
    // what is for the IPv6 address, whose prefix the port's own chain knows.
    chainText("guest", "", [
      "ether type { 8021q, 8021ad } goto claims",
      `meta protocol ip ip daddr ${METADATA_IPV4} ip saddr { ${METADATA_IPV4}, ${PORT_ADDRESSES} } drop`,
      `meta protocol ip ip daddr ${METADATA_IPV4} ip daddr set iif map @address ${handOver}`,
      `${asks} arp daddr ip ${METADATA_IPV4} meta mark set iif map @number goto arp_service`,
      `${asks} meta mark set iif . arp daddr ip map @former goto arp_former`,
      `${to6(METADATA_IPV6)} meta l4proto tcp return`,
      `${to6(METADATA_IPV6)} icmpv6 type echo-request return`,
      // Each may become a neighbour of the listener, and all namespaces of the node share room for a thousand.
      `${solicits} update @solicited { iif limit rate over 20/second burst 60 packets } drop`,
      `${solicits} return`,
      "goto claims",
    ]),
    // To a guest: our answers, by the port's own mark, and what others send.
    chainText("to_guest", "", ["oif . meta mark @answers meta mark set 0 accept", "goto claims"]),
    chainText("answer", "", [
      `ip saddr set ${METADATA_IPV4}`,
      "ip6 daddr set ip6 daddr & ::ffff:ffff:ffff:ffff | fe80::",
      `ether saddr set ${serviceMac} ether daddr set meta mark map @mac fwd to meta mark map @link`,
    ]),
    chainText("listener", hookOf("ingress", door.outer, "drop"), [
      `iif != ${door.ifindex} drop`,
      "meta protocol ip meta mark set ip saddr map @port goto answer",
      "meta protocol ip6 meta mark set ip6 daddr & ffff:ffff:ffff:ffff:: map @port6 goto answer",
    ]),
  ];
}

function portChains({ address, port }: AdmittedPort, parts: RulesetParts): readonly ChainText[] {
  const { door, secretMac, doorMac, egress } = parts;
  const prefixed = `ip6 saddr set ip6 saddr & ::ffff:ffff:ffff:ffff | ${portPrefix6(address)}`;
  const inward = [
    "jump guest",
    `iif ${port.ifindex} ${prefixed} ether saddr set ${secretMac} ether daddr set ${doorMac} fwd to ${door.ifindex}`,
    "goto claims",
  ];
  const chain = (name: string, hook: "ingress" | "egress", rules: readonly string[]) =>
    chainText(`${name}_${address.toString(16)}`, hookOf(hook, port.link, "accept"), rules, address);
  return [chain("in", "ingress", inward), ...(egress ? [chain("out", "egress", ["goto to_guest"])] : [])];
}

function portElements({
  address,
  port,
  mac,
  formerGateways,
}: AdmittedPort): readonly (readonly [SetName, string, string])[] {
  const d = formatPortAddress(address);
  const [link, mark] = [String(port.ifindex), String(address)];
  return [
    ["address", link, d],
    ["number", link, mark],
    ["answers", `${link} . ${mark}`, ""],
    ["port", d, mark],
    ["port6", portPrefix6(address), mark],
    ["mac", mark, mac],
    ["link", mark, link],
    ...formerGateways.flatMap((gateway): readonly (readonly [SetName, string, string])[] => {
      const number = String(parseAddress(gateway).value);
      return [
        ["former", `${link} . ${gateway}`, number],
        ["gateway", number, gateway],
      ];
    }),
  ];
}

function hookOf(hook: "ingress" | "egress", device: string, policy: "accept" | "drop"): string {
  return `type filter hook ${hook} device "${device}" priority ${PRIORITY}; policy ${policy};`;
}

function raw6(text: string): string {
  return `0x${parseAddress(text).value.toString(16)}`;
}
