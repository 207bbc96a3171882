/*
 * guests/drivers/bridge/: takes frames of guests in a Linux bridge, where the kernel cannot at their links
 *
 *   bridge-driver   the driver: a door for each bridge, or VLAN of one
 *   bridge-door     makes a door a port of its bridge
 *   ruleset         a table of family bridge
 */

import { existsSync } from "node:fs";
import type { Clock } from "../../../platform/time.ts";
import { PORT_ADDRESSES, type PortAddress } from "../../kernel/port-address.ts";
import { mustRun, run } from "../../kernel/run.ts";
import type {
  AdmittedPort,
  DatapathDriver,
  HostSideLink,
  ListenerDoors,
  OpenDoor,
  PortRef,
  Probe,
  SyncResult,
} from "../driver.ts";
import { Follower } from "../nft/follower.ts";
import { isPort } from "../nft/links.ts";
import { NftTable } from "../nft/nft-table.ts";
import { doorName, placeOf, placeOfLink, plugIn, unplug } from "./bridge-door.ts";
import { bridgeRuleset, FORM, shutBridgeRuleset } from "./ruleset.ts";

/** There while the kernel takes bridged IPv4 through iptables. */
const BRIDGE_NF = "/proc/sys/net/bridge/bridge-nf-call-iptables";

export interface BridgeParts {
  /** Name of the tables in families bridge and ip. */
  readonly table: string;
  readonly doors: ListenerDoors;
  readonly clock: Clock;
}

/** Guests at Linux bridges, IPv4 only. */
export class BridgeDriver implements DatapathDriver {
  readonly kind = "bridge";
  readonly #parts: BridgeParts;
  readonly #table: NftTable;
  readonly #open = new Map<string, OpenDoor>();
  #neighbours: Follower | null = null;
  /** Whether requests are kept out of the host's NAT. */
  #exempt = false;
  /** The work at hand and all that waits for it. */
  #turn: Promise<unknown> = Promise.resolve();

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
    return this.#inTurn(() => this.#sync(ports, again, hurry));
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
    return this.#inTurn(async () => {
      await this.#table.shut(ports, shutBridgeRuleset, unlessThere);
      if (!unlessThere) await this.#closeDoors();
    });
  }

  remove(): Promise<void> {
    return this.#inTurn(async () => {
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

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}
