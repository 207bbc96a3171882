import { formatPortAddress, PORT_ADDRESSES } from "../../kernel/port-address.ts";
import { type AdmittedPort, type ListenerDoors, METADATA_IPV4 } from "../driver.ts";
import { CLAIMS, SERVED_PING, SERVED_TCP, SHUT } from "../nft/claims.ts";
import { type ChainText, chainText, type Element, elementsOf, type Ruleset, type TableForm } from "../nft/ruleset.ts";

/** Everything that the rules know of ports. D: the address that stands for a port. */
export const FORM: TableForm = {
  family: "bridge",
  sets: {
    doors: { kind: "set", type: "iface_index", says: "Links to the listener." },
    guests: { kind: "set", type: "iface_index", says: "Links of guests." },
    address: { kind: "map", type: "iface_index : ipv4_addr", says: "Link of a guest, and its D." },
    pairs: {
      kind: "set",
      type: "iface_index . iface_index . ipv4_addr",
      says: "Link of a guest, the door of its bridge, and its D.",
    },
    mac: { kind: "map", type: "ipv4_addr : ether_addr", says: "D, and the MAC of the guest." },
  },
};

type Macs = Pick<ListenerDoors, "serviceMac" | "secretMac" | "doorMac">;

/** `doors`: index of the door's outer end, by name. */
export function bridgeRuleset(ports: readonly AdmittedPort[], doors: ReadonlyMap<string, number>, macs: Macs): Ruleset {
  const elements = ports.flatMap(({ address, port, mac }): readonly Element[] => {
    const d = formatPortAddress(address);
    return [
      ["guests", String(port.ifindex), ""],
      ["address", String(port.ifindex), d],
      ["pairs", `${port.ifindex} . ${doors.get(port.door)} . ${d}`, ""],
      ["mac", d, mac],
    ];
  });
  const all = [...elements, ...[...doors.values()].map((index): Element => ["doors", String(index), ""])];
  return {
    chains: new Map(chainsWith(macs).map((chain) => [chain.name, chain])),
    elements: elementsOf(FORM, all),
  };
}

export function shutBridgeRuleset(ports: readonly AdmittedPort[]): Ruleset {
  const chains = [
    CLAIMS,
    chainText("shut", "", SHUT),
    chainText("handed", hook("forward", 200), ["iif @guests goto shut", "oif @guests goto claims"]),
    chainText("to_host", hook("input", -200), ["iif @guests goto shut"]),
    chainText("from_host", hook("output", -200), ["oif @guests goto claims"]),
  ];
  const guests = ports.map(({ port }): Element => ["guests", String(port.ifindex), ""]);
  return {
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    elements: elementsOf(FORM, guests),
  };
}

function chainsWith({ serviceMac, secretMac, doorMac }: Macs): readonly ChainText[] {
  const asked = `meta protocol ip ip daddr ${METADATA_IPV4}`;
  return [
    CLAIMS,
    chainText("taken", hook("prerouting", -300), [
      // An answer goes to every port, and the rules below let it out by one: what the bridge has learned of MACs, which
      // any neighbour can teach it, does not matter.
      "iif @doors meta protocol ip ether daddr set ff:ff:ff:ff:ff:ff accept",
      "iif @doors drop",
      "ether type { 8021q, 8021ad } accept",
      `iif @guests ${asked} ip saddr { ${METADATA_IPV4}, ${PORT_ADDRESSES} } drop`,
      ...[SERVED_TCP, SERVED_PING].map(
        (served) => `${asked} ${served} ip daddr set iif map @address ether daddr set ${doorMac} accept`,
      ),
      `iif @guests ${asked} drop`,
    ]),
    // Behind br_netfilter (priority 0), so that the host's rules see an answer come from where its request went.
    chainText("handed", hook("forward", 200), [
      "iif @doors meta protocol ip oif . iif . ip saddr @pairs goto answer",
      "iif @doors drop",
      `oif @doors meta protocol ip iif . oif . ip daddr @pairs ether saddr set ${secretMac} accept`,
      "oif @doors drop",
      "iif @guests goto claims",
      "oif @guests goto claims",
    ]),
    chainText("answer", "", [
      `ether daddr set ip saddr map @mac ether saddr set ${serviceMac} ip saddr set ${METADATA_IPV4} accept`,
    ]),
    chainText("to_host", hook("input", -200), ["iif @doors drop", "iif @guests goto claims"]),
    chainText("from_host", hook("output", -200), ["oif @doors drop", "oif @guests goto claims"]),
  ];
}

function hook(name: string, priority: number): string {
  return `type filter hook ${name} priority ${priority}; policy accept;`;
}
