/*
 * guests/drivers/bridge/: takes frames of guests in a Linux bridge, where the kernel cannot at their links
 *
 *   bridge-driver   the driver: a door for each bridge, or VLAN of one, which is a port of it;
 *                   its table of family bridge
 */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { InTurn } from "../../../platform/single-flight.ts";
import type { Clock } from "../../../platform/time.ts";
import { formatPortAddress, PORT_ADDRESSES, type PortAddress } from "../../kernel/port-address.ts";
import { mustRun, run } from "../../kernel/run.ts";
import { masterOf } from "../../kernel/sysfs.ts";
import {
  type AdmittedPort,
  type DatapathDriver,
  type HostSideLink,
  type ListenerDoors,
  METADATA_IPV4,
  type OpenDoor,
  type PortRef,
  type Probe,
  type SyncResult,
} from "../driver.ts";
import { CLAIMS, SERVED_PING, SERVED_TCP, SHUT } from "../nft/claims.ts";
import { Follower } from "../nft/follower.ts";
import { isPort, readLinkFile } from "../nft/links.ts";
import { NftTable } from "../nft/nft-table.ts";
import { type ChainText, chainText, type Element, elementsOf, type Ruleset, type TableForm } from "../nft/ruleset.ts";

/** There while the kernel takes bridged IPv4 through iptables. */
const BRIDGE_NF = "/proc/sys/net/bridge/bridge-nf-call-iptables";

export interface BridgeParts {
  /** Name of the tables in families bridge and ip. */
  readonly table: string;
  readonly doors: ListenerDoors;
  readonly clock: Clock;
}

/** IPv4 only. */
export class BridgeDriver implements DatapathDriver {
  readonly kind = "bridge";
  readonly #parts: BridgeParts;
  readonly #table: NftTable;
  readonly #open = new Map<string, OpenDoor>();
  #neighbours: Follower | null = null;
  /** Whether requests are kept out of the host's NAT. */
  #exempt = false;
  readonly #turns = new InTurn();

  constructor(parts: BridgeParts) {
    this.#parts = parts;
    this.#table = new NftTable(FORM, parts.table);
  }

  async probe(): Promise<Probe> {
    const script = "ip link add name probe0 type bridge; exec nft -f -";
    const text = "table bridge t { chain c { type filter hook prerouting priority -300; policy accept; }; }";
    const ran = await run("unshare", ["--net", "sh", "-ec", script], text);
    return ran.code === 0
      ? { ok: true, notes: [] }
      : {
          ok: false,
          why: `the kernel has no bridges, or nftables has no family bridge: ${ran.stderr.trim().slice(0, 300)}`,
        };
  }

  async claim(link: HostSideLink): Promise<PortRef | null> {
    if (!isPort(link)) return null;
    const place = await placeOfLink(link.name);
    if (place === null) return null;
    return { driver: this.kind, link: link.name, ifindex: link.ifindex, door: doorName(place) };
  }

  sync(ports: readonly AdmittedPort[], again: boolean, hurry?: AbortSignal): Promise<SyncResult> {
    return this.#turns.run(() => this.#sync(ports, again, hurry));
  }

  watch(lost: () => void): void {
    this.#table.watch(this.#parts.clock, lost);
    // The kernel forgets what a bridge answers when its address changes, as it does when a port with a lower one comes.
    const bridges = () => [...this.#open.keys()].map((door) => placeOf(door).bridge);
    this.#neighbours = new Follower(["ip", "-o", "monitor", "neigh"], this.#parts.clock, {
      heard: (line) => {
        const [, bridge] = /^Deleted \S+ dev (\S+) lladdr \S+ PERMANENT/.exec(line) ?? [];
        if (bridge !== undefined && bridges().includes(bridge)) lost();
      },
      ended: lost,
    });
  }

  close(): void {
    this.#table.close();
    this.#neighbours?.close();
  }

  shut(ports: readonly AdmittedPort[], unlessThere: boolean): Promise<void> {
    return this.#turns.run(async () => {
      await this.#table.shut(ports, shutBridgeRuleset, unlessThere);
      if (!unlessThere) await this.#closeDoors();
    });
  }

  remove(): Promise<void> {
    return this.#turns.run(async () => {
      await this.#table.remove();
      await this.#closeDoors();
    });
  }

  async #sync(ports: readonly AdmittedPort[], again: boolean, hurry?: AbortSignal): Promise<SyncResult> {
    const unplugged = await this.#openDoors(ports, again);
    const failed = new Map<PortAddress, string>();
    const served: AdmittedPort[] = [];
    for (const admitted of ports) {
      const why = unplugged.get(admitted.port.door);
      if (why === undefined) served.push(admitted);
      else failed.set(admitted.address, why);
    }
    const indexes = new Map([...this.#open].map(([door, { ifindex }]) => [door, ifindex]));
    const build = (chosen: readonly AdmittedPort[]) => bridgeRuleset(chosen, indexes, this.#parts.doors);
    const links = [...this.#open.values()].map(({ outer, ifindex }) => ({ link: outer, ifindex }));
    if (served.length === 0) await this.#table.remove();
    const done = served.length === 0 ? null : await this.#table.sync(served, { build, links }, again, hurry);
    await this.#keepOutOfNat(served.length > 0);
    for (const [address, why] of done?.failed ?? []) failed.set(address, why);
    return { failed, repaired: done?.repaired ?? false };
  }

  /** Opens what the ports need and closes all else. Resolves with the doors that cannot be opened, and why. */
  async #openDoors(ports: readonly AdmittedPort[], again: boolean): Promise<ReadonlyMap<string, string>> {
    const { doors } = this.#parts;
    const failed = new Map<string, string>();
    const wanted = new Set(ports.map(({ port }) => port.door));
    for (const door of [...this.#open.keys()]) if (!wanted.has(door)) await this.#closeDoor(door);
    for (const door of wanted) {
      if (this.#open.has(door) && !again) continue;
      try {
        const opened = await doors.ensure(door);
        await plugIn(placeOf(door), opened, doors);
        this.#open.set(door, opened);
      } catch (error) {
        this.#open.delete(door);
        failed.set(door, `its bridge has no way to the listener: ${(error as Error).message}`);
      }
    }
    return failed;
  }

  async #closeDoors(): Promise<void> {
    await this.#keepOutOfNat(false);
    for (const door of [...this.#open.keys()]) await this.#closeDoor(door);
  }

  async #closeDoor(door: string): Promise<void> {
    await unplug(placeOf(door), this.#parts.doors.serviceMac);
    await this.#parts.doors.remove(door);
    this.#open.delete(door);
  }

  /**
   * With `bridge-nf-call-iptables`, what is bridged passes the host's NAT, and a masquerading rule (the bridge plugin's
   * `ipMasq`) would give a request the address of the bridge. A translation to the address that it has comes before it.
   */
  async #keepOutOfNat(wanted: boolean): Promise<void> {
    const { table } = this.#parts;
    const exempt = wanted && existsSync(BRIDGE_NF);
    if (exempt === this.#exempt) return;
    const empty = `table ip ${table} {}\ndelete table ip ${table}\n`;
    const rules = `type nat hook postrouting priority 99; policy accept; ip daddr ${PORT_ADDRESSES} snat to ip saddr;`;
    await mustRun(
      "nft",
      ["-f", "-"],
      exempt ? `${empty}table ip ${table} { chain postrouting { ${rules} }; }\n` : empty,
    );
    this.#exempt = exempt;
  }
}

/** A bridge, and the VLAN whose frames its port takes and gives without a tag; null: the bridge knows no VLANs. */
interface BridgePlace {
  readonly bridge: string;
  readonly vlan: number | null;
}

/** "/" is in no name of a link. */
function doorName({ bridge, vlan }: BridgePlace): string {
  return `bridge:${bridge}${vlan === null ? "" : `/${vlan}`}`;
}

function placeOf(door: string): BridgePlace {
  const [bridge, vlan] = door.slice("bridge:".length).split("/") as [string, string?];
  return { bridge, vlan: vlan === undefined ? null : Number(vlan) };
}

/** Where a link is plugged in; null: into no Linux bridge. Throws an Error for the operator when it has no VLAN. */
async function placeOfLink(link: string): Promise<BridgePlace | null> {
  const bridge = masterOf(link);
  if (bridge === null || readLinkFile(bridge, "bridge/bridge_id") === null) return null;
  if (readLinkFile(bridge, "bridge/vlan_filtering") !== "1") return { bridge, vlan: null };
  const shown = await mustRun("bridge", ["-json", "vlan", "show", "dev", link]);
  const [port] = JSON.parse(shown || "[]") as { vlans?: { vlan: number; flags?: string[] }[] }[];
  const vlan = port?.vlans?.find(({ flags }) => flags?.includes("PVID"))?.vlan;
  if (vlan === undefined) throw new Error(`the link ${link} has no VLAN without a tag on the bridge ${bridge}`);
  return { bridge, vlan };
}

/**
 * Makes a door a port of its bridge, from any state: known by its MACs, not learnt, sent nothing else; ARP answered.
 */
async function plugIn(
  place: BridgePlace,
  { outer }: OpenDoor,
  macs: Pick<ListenerDoors, "serviceMac" | "doorMac" | "nobodyMac">,
): Promise<void> {
  const { bridge, vlan } = place;
  const of = vlan === null ? "" : ` vlan ${vlan}`;
  // A bridge takes the lowest address of its ports.
  const mac = `fe:ff${createHash("sha256").update(outer).digest("hex").slice(0, 8).replaceAll(/../g, ":$&")}`;
  await mustRun("ip", ["-batch", "-"], `link set ${outer} address ${mac} master ${bridge} up\n`);
  const ours = readLinkFile(bridge, "bridge/default_pvid") ?? "0";
  const vlans =
    vlan === null
      ? []
      : [
          ...(ours === "0" || ours === String(vlan) ? [] : [`vlan del dev ${outer} vid ${ours}`]),
          `vlan add dev ${outer} vid ${vlan} pvid untagged`,
        ];
  const commands = [
    ...vlans,
    `link set dev ${outer} learning off flood off mcast_flood off bcast_flood off neigh_suppress on`,
    ...[macs.doorMac, macs.serviceMac, macs.nobodyMac].map(
      (one) => `fdb replace ${one} dev ${outer} master static${of}`,
    ),
  ];
  await mustRun("bridge", ["-batch", "-"], `${commands.join("\n")}\n`);
  const answer = `neigh replace ${METADATA_IPV4} lladdr ${macs.serviceMac} dev ${bridge} nud permanent\n`;
  await mustRun("ip", ["-batch", "-"], answer);
}

/** Takes away what `plugIn` left at the bridge itself; what is at the door's link goes with that. */
async function unplug({ bridge }: BridgePlace, serviceMac: string): Promise<void> {
  const shown = await run("ip", ["-json", "neigh", "show", "dev", bridge, "nud", "permanent"]);
  if (shown.code !== 0) return;
  for (const { dst, lladdr } of JSON.parse(shown.stdout || "[]") as { dst: string; lladdr?: string }[])
    if (lladdr === serviceMac) await run("ip", ["neigh", "del", dst, "dev", bridge]);
}

/** Everything that the rules know of ports. D: the address that stands for a port. */
const FORM: TableForm = {
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
function bridgeRuleset(ports: readonly AdmittedPort[], doors: ReadonlyMap<string, number>, macs: Macs): Ruleset {
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

function shutBridgeRuleset(ports: readonly AdmittedPort[]): Ruleset {
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
