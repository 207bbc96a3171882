import { parseAddress } from "../../../ipam/space/address.ts";
import { formatPortAddress, PORT_ADDRESSES, type PortAddress, portPrefix6 } from "../../kernel/port-address.ts";
import { type AdmittedPort, METADATA_IPV4, METADATA_IPV6 } from "../driver.ts";
import { CLAIMS, rawAddress, SERVED_PING, SERVED_TCP, SHUT } from "../nft/claims.ts";
import { type ChainText, chainText, type Element, elementsOf, type Ruleset, type TableForm } from "../nft/ruleset.ts";

/** Whom a guest asks that looks for the MAC of METADATA_IPV6. */
const SOLICITED = "ff02::1:fffe:a9fe";
/** Before everything that an administrator puts there. */
const PRIORITY = -500;

/** Everything that the rules know of ports. A mark is the number of a port's address D. */
export const FORM: TableForm = {
  family: "netdev",
  sets: {
    address: { kind: "map", type: "iface_index : ipv4_addr", says: "Link of a guest, and its D." },
    number: { kind: "map", type: "iface_index : mark", says: "The same as a mark." },
    answers: {
      kind: "set",
      type: "iface_index . mark",
      says: "Link of a guest, and the mark of its answers.",
    },
    port: { kind: "map", type: "ipv4_addr : mark", says: "D as the source of answers." },
    port6: { kind: "map", type: "ipv6_addr : mark", says: "Prefix that stands for D, as their destination." },
    mac: { kind: "map", type: "mark : ether_addr", says: "MAC of the guest." },
    link: { kind: "map", type: "mark : iface_index", says: "Link of the guest." },
  },
};

/** A neighbour advertisement: solicited, and in place of what was known. */
const ADVERTISEMENT = "8800000060000000";
/** Its option: the target's MAC, in a unit of 8 bytes. */
const TARGET_MAC = "0201";
const SOURCE_MAC_OPTION = "0x0101";
const ICMPV6 = 58;

export interface RulesetParts {
  readonly door: { readonly outer: string; readonly ifindex: number };
  readonly serviceMac: string;
  readonly secretMac: string;
  readonly doorMac: string;
  /** Whether the kernel has the egress hook (5.16). */
  readonly egress: boolean;
}

interface PortRules {
  readonly admitted: AdmittedPort;
  readonly chains: readonly ChainText[];
  readonly elements: readonly Element[];
}

/** Makes the tables for one door; what it made for a port is kept until that changes. */
export class RulesetBuilder {
  readonly #parts: RulesetParts;
  readonly #shared: readonly ChainText[];
  #ports = new Map<PortAddress, PortRules>();

  constructor(parts: RulesetParts) {
    this.#parts = parts;
    this.#shared = sharedChains(parts);
  }

  /** No two of the ports have the same link. */
  build(ports: readonly AdmittedPort[]): Ruleset {
    const before = this.#ports;
    this.#ports = new Map(
      ports.map((admitted) => {
        const known = before.get(admitted.address);
        return [admitted.address, known && sameAdmitted(known.admitted, admitted) ? known : this.#rulesOf(admitted)];
      }),
    );
    const own = [...this.#ports.values()];
    return {
      chains: new Map([...this.#shared, ...own.flatMap(({ chains }) => chains)].map((chain) => [chain.name, chain])),
      elements: elementsOf(
        FORM,
        own.flatMap(({ elements }) => elements),
      ),
    };
  }

  #rulesOf(admitted: AdmittedPort): PortRules {
    return { admitted, chains: portChains(admitted, this.#parts), elements: portElements(admitted) };
  }
}

export function shutRuleset(ports: readonly AdmittedPort[], egress: boolean): Ruleset {
  const chains = [CLAIMS, ...ports.flatMap((port) => hookChains(port, { egress, inward: SHUT, outward: "claims" }))];
  return { chains: new Map(chains.map((chain) => [chain.name, chain])), elements: elementsOf(FORM, []) };
}

function sameAdmitted(one: AdmittedPort, other: AdmittedPort): boolean {
  return one.port.link === other.port.link && one.port.ifindex === other.port.ifindex && one.mac === other.mac;
}

function sharedChains(parts: RulesetParts): readonly ChainText[] {
  const { door, serviceMac } = parts;
  // The question becomes the answer, in place.
  const arpAnswer = (sender: string) =>
    [
      `ether daddr set ether saddr ether saddr set ${serviceMac} arp operation set reply`,
      "arp daddr ether set arp saddr ether arp daddr ip set arp saddr ip",
      `arp saddr ether set ${serviceMac} arp saddr ip set ${sender}`,
      "meta mark set iif map @number fwd to meta iif",
    ].join(" ");
  const asks = `meta protocol arp arp operation request arp saddr ip != ${METADATA_IPV4}`;
  const asked4 = `meta protocol ip ip daddr ${METADATA_IPV4}`;
  const to6 = (to: string) => `meta protocol ip6 ip6 daddr ${to} ip6 saddr fe80::/64 ip6 saddr != ${METADATA_IPV6}`;
  const solicits = `${to6(`{ ${METADATA_IPV6}, ${SOLICITED} }`)} icmpv6 type nd-neighbor-solicit`;
  const asked = solicitations(serviceMac);
  return [
    CLAIMS,
    chainText("arp_service", "", [arpAnswer(METADATA_IPV4)]),
    ...asked.map(({ chain, answer }) =>
      chainText(chain, "", [
        ...answer,
        `ether daddr set ether saddr ether saddr set ${serviceMac}`,
        "meta mark set iif map @number fwd to meta iif",
      ]),
    ),
    // Of a guest. Who it is follows from the index of the link: another link of that name is nobody. It returns with
    // what is for the IPv6 address, whose prefix the port's own chain knows.
    chainText("guest", "", [
      "ether type { 8021q, 8021ad } goto claims",
      `${asked4} ip saddr { ${METADATA_IPV4}, ${PORT_ADDRESSES} } drop`,
      ...[SERVED_TCP, SERVED_PING].map(
        (served) => `${asked4} ${served} ip daddr set iif map @address ${handOver(parts)}`,
      ),
      // An error of ICMP could lower the path MTU of an address that a neighbour has, too.
      `${asked4} drop`,
      `${asks} arp daddr ip ${METADATA_IPV4} meta mark set iif map @number goto arp_service`,
      `${to6(METADATA_IPV6)} meta l4proto tcp return`,
      `${to6(METADATA_IPV6)} icmpv6 type echo-request return`,
      ...asked.map(({ chain, match }) => `${solicits} ${match} goto ${chain}`),
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
  const prefixed = `ip6 saddr set ip6 saddr & ::ffff:ffff:ffff:ffff | ${portPrefix6(address)}`;
  const inward = ["jump guest", `iif ${port.ifindex} ${prefixed} ${handOver(parts)}`, "goto claims"];
  return hookChains({ address, port }, { egress: parts.egress, inward, outward: "to_guest" });
}

interface HookRules {
  readonly egress: boolean;
  readonly inward: readonly string[];
  readonly outward: string;
}

function hookChains(
  { address, port }: Pick<AdmittedPort, "address" | "port">,
  { egress, inward, outward }: HookRules,
): readonly ChainText[] {
  const chain = (name: string, hook: "ingress" | "egress", rules: readonly string[]) =>
    chainText(`${name}_${address.toString(16)}`, hookOf(hook, port.link, "accept"), rules, address);
  return [chain("in", "ingress", inward), ...(egress ? [chain("out", "egress", [`goto ${outward}`])] : [])];
}

function portElements({ address, port, mac }: AdmittedPort): readonly Element[] {
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
  ];
}

/** To the listener, as somebody whom it hears. */
function handOver({ door, secretMac, doorMac }: RulesetParts): string {
  return `ether saddr set ${secretMac} ether daddr set ${doorMac} fwd to ${door.ifindex}`;
}

function hookOf(hook: "ingress" | "egress", device: string, policy: "accept" | "drop"): string {
  return `type filter hook ${hook} device "${device}" priority ${PRIORITY}; policy ${policy};`;
}

/** A neighbour solicitation for METADATA_IPV6 in one of two forms that systems send: with the asker's MAC, or bare. */
interface Solicitation {
  readonly chain: string;
  /** Follows "icmpv6 type nd-neighbor-solicit". */
  readonly match: string;
  /** Makes it the advertisement, but for the MACs of the frame. */
  readonly answer: readonly string[];
}

/** Answered in place: no guest can fill the listener's table of neighbours, which all namespaces of a node share. */
function solicitations(serviceMac: string): readonly Solicitation[] {
  return [true, false].map((hasOption) => {
    const mac = serviceMac.replaceAll(":", "");
    const option = hasOption ? `${TARGET_MAC}${mac}` : "";
    const body = `${ADVERTISEMENT}${hexOf(METADATA_IPV6)}${option}`;
    const checksum = checksumOf(body);
    const target = `@th,64,128 ${rawAddress(METADATA_IPV6)}`;
    const form = `ip6 nexthdr icmpv6 ip6 length ${body.length / 2}`;
    return {
      chain: hasOption ? "advertise" : "advertise_bare",
      match: `ip6 hoplimit 255 ${form} ${target}${hasOption ? ` @th,192,16 ${SOURCE_MAC_OPTION}` : ""}`,
      answer: [
        // nft corrects the checksum by what changes in an address that it knows as one, and by nothing that is written
        // as raw bytes. So: the checksum of an answer to METADATA_IPV6, corrected for the asker's address.
        `ip6 daddr set ${METADATA_IPV6}`,
        [
          "@th,0,16 set 0x8800 @th,32,32 set 0x60000000",
          ...(hasOption ? [`@th,192,16 set 0x${TARGET_MAC} @th,208,48 set 0x${mac}`] : []),
          `@th,16,16 set 0x${checksum.toString(16)}`,
        ].join(" "),
        "ip6 daddr set ip6 saddr",
        `@nh,64,64 set 0x${hexOf(METADATA_IPV6).slice(0, 16)} @nh,128,64 set 0x${hexOf(METADATA_IPV6).slice(16)}`,
      ],
    };
  });
}

/** Of an ICMPv6 message from METADATA_IPV6 to the same. `body`: in hex, with the checksum zero. */
function checksumOf(body: string): number {
  const length = (body.length / 2).toString(16).padStart(8, "0");
  const pseudo = `${hexOf(METADATA_IPV6)}${hexOf(METADATA_IPV6)}${length}${ICMPV6.toString(16).padStart(8, "0")}`;
  let sum = 0;
  for (const [word] of `${pseudo}${body}`.matchAll(/..../g)) sum += Number.parseInt(word, 16);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000);
  return ~sum & 0xffff;
}

function hexOf(address: string): string {
  return parseAddress(address).value.toString(16).padStart(32, "0");
}
