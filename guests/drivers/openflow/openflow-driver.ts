/*
 * guests/drivers/openflow/: takes frames of guests by flows of a bridge whose datapath is in userspace
 *
 *   openflow-driver   the driver: which bridges, which ports
 *   door-port         the listener as a port of a bridge
 *   bridge-flows      what is written on one bridge, and whether it is still there
 *   flow-text         the flows (pure); ofctl: ovs-ofctl as a command
 */

import { PeriodicTask } from "../../../platform/periodic-task.ts";
import { InTurn } from "../../../platform/single-flight.ts";
import type { Clock } from "../../../platform/time.ts";
import type { PortAddress } from "../../kernel/port-address.ts";
import { hostLink } from "../../kernel/sysfs.ts";
import type { OvsPort, OvsPorts } from "../../ovs/ovs-ports.ts";
import type {
  AdmittedPort,
  DatapathDriver,
  HostSideLink,
  ListenerDoors,
  PortRef,
  Probe,
  SyncResult,
} from "../driver.ts";
import { BridgeFlows } from "./bridge-flows.ts";
import { DoorPorts, hasEthtool } from "./door-port.ts";
import type { BridgePlan, GuestFlowPort } from "./flow-text.ts";
import { ofctlVersion } from "./ofctl.ts";

/** "hold", and then the tag: flows of ours, and of no other run directory. */
const COOKIE_PREFIX = "0x686f6c640000";
/** ovs-vswitchd gives a new port its number within some 50 ms. */
const NUMBER_MS_MAX = 2_000;
/** Pause after a change of the switch's ports before flows follow, ms. */
const SETTLE_MS = 20;

/** Before the name of a bridge, it is the name of its door. */
const DOOR_PREFIX = "ovs:";

export interface OpenflowParts {
  /** Four hex digits of the run directory. */
  readonly tag: string;
  readonly doors: ListenerDoors;
  readonly ovs: OvsPorts;
  readonly clock: Clock;
}

interface Bridge {
  readonly flows: BridgeFlows;
  admitted: readonly AdmittedPort[];
  failed: ReadonlyMap<PortAddress, string>;
  awaited: ReadonlySet<PortAddress>;
  /** Number of the door's port; null: it is none. */
  door: number | null;
}

/** Every port of a bridge of Open vSwitch whose datapath is in userspace, and which nobody else writes. */
export class OpenflowDriver implements DatapathDriver {
  readonly kind = "openflow";
  readonly #parts: OpenflowParts;
  readonly #cookie: string;
  readonly #doorPorts: DoorPorts;
  readonly #bridges = new Map<string, Bridge>();
  #lost: (() => void) | null = null;
  #unfollow: (() => void) | null = null;
  #following: PeriodicTask | null = null;
  /** Has what an earlier process left been found? */
  #isSwept = false;
  /** What of the switch's ports the flows follow from, as last seen. */
  #seen = "";
  readonly #turns = new InTurn();

  constructor(parts: OpenflowParts) {
    this.#parts = parts;
    // As ovs-ofctl prints it.
    this.#cookie = `${COOKIE_PREFIX}${parts.tag}`;
    this.#doorPorts = new DoorPorts(parts.ovs, parts.tag);
  }

  async probe(): Promise<Probe> {
    const { ovs } = this.#parts;
    await ovs.ready();
    if (!ovs.connected) return { ok: false, why: "Open vSwitch's database does not answer: there may be none" };
    const version = await ofctlVersion();
    if (version === null) return { ok: false, why: "ovs-ofctl cannot be run; install Open vSwitch's programs" };
    const notes = [`Open vSwitch ${ovs.version() ?? "of an unknown version"}, ovs-ofctl ${version}.`];
    const userspace = [...ovs.bridges()].filter(([, { datapath }]) => datapath === "userspace");
    for (const [bridge] of userspace)
      if (ovs.isOfOvn(bridge)) notes.push(`Guests at ${bridge} are not served: ${ofOvn(bridge)}.`);
    if (!ovs.hasUserspaceTso() && !(await hasEthtool()))
      notes.push(
        "ethtool is not there: guests at bridges with the userspace datapath get no answers, as checksums of the listener are not computed; install it, or set other_config:userspace-tso-enable=true.",
      );
    return { ok: true, notes };
  }

  async claim({ name, ifindex }: HostSideLink): Promise<PortRef | null> {
    const port = await this.#parts.ovs.find(name);
    if (port === null || port.datapath !== "userspace") return null;
    if (this.#parts.ovs.isOfOvn(port.bridge))
      throw new Error(`${name} is a port of ${port.bridge}, whose datapath is in userspace: ${ofOvn(port.bridge)}`);
    return { driver: this.kind, link: name, ifindex, door: DOOR_PREFIX + port.bridge };
  }

  sync(ports: readonly AdmittedPort[], again: boolean): Promise<SyncResult> {
    return this.#turns.run(() => this.#sync(ports, again));
  }

  watch(lost: () => void): void {
    this.#lost = lost;
    const following = new PeriodicTask({
      ...{ clock: this.#parts.clock, settleMs: SETTLE_MS },
      work: () => this.#turns.run(() => this.#follow()),
    });
    following.start();
    this.#following = following;
    this.#unfollow = this.#parts.ovs.onChange(() => following.trigger());
    for (const { flows } of this.#bridges.values()) flows.watch();
  }

  close(): void {
    this.#lost = null;
    this.#unfollow?.();
    void this.#following?.stop();
    for (const { flows } of this.#bridges.values()) flows.close();
  }

  shut(ports: readonly AdmittedPort[], unlessThere: boolean): Promise<void> {
    return this.#turns.run(async () => {
      const { ovs } = this.#parts;
      if (ports.length > 0) await ovs.ready();
      if (!ovs.connected) return;
      for (const [name, admitted] of byBridge(ports)) {
        if (!ovs.bridges().has(name)) continue;
        const bridge = this.#open(name);
        if (unlessThere && (await bridge.flows.areThere())) continue;
        bridge.admitted = admitted;
        bridge.door = null;
        await bridge.flows.write(this.#plan(name, bridge, { door: null, numbers: null }), true);
        await this.#closeDoor(name);
      }
    });
  }

  remove(): Promise<void> {
    return this.#turns.run(async () => {
      await this.#parts.ovs.ready();
      if (!this.#parts.ovs.connected) return;
      this.#openAll();
      for (const name of [...this.#bridges.keys()]) await this.#leave(name);
    });
  }

  async #sync(ports: readonly AdmittedPort[], again: boolean): Promise<SyncResult> {
    const { ovs } = this.#parts;
    await ovs.ready();
    const failed = new Map<PortAddress, string>();
    let repaired = false;
    const wanted = byBridge(ports);
    if (!this.#isSwept) this.#openAll();
    this.#isSwept = ovs.connected;
    for (const name of [...this.#bridges.keys()]) if (!wanted.has(name)) await this.#leave(name);
    for (const [name, admitted] of wanted) {
      const bridge = this.#open(name);
      bridge.admitted = admitted;
      try {
        repaired = (await this.#serve(name, bridge, again)) || repaired;
        for (const [address, why] of bridge.failed) failed.set(address, why);
      } catch (error) {
        for (const { address } of admitted) failed.set(address, (error as Error).message);
      }
    }
    this.#seen = this.#fingerprint();
    return { failed, repaired };
  }

  #open(name: string): Bridge {
    const known = this.#bridges.get(name);
    if (known !== undefined) return known;
    const { ovs, clock } = this.#parts;
    const where = { socket: ovs.bridgeSocket(name), cookie: this.#cookie };
    const flows = new BridgeFlows(where, clock, () => this.#lost?.());
    const bridge: Bridge = { flows, admitted: [], failed: new Map(), awaited: new Set(), door: null };
    this.#bridges.set(name, bridge);
    if (this.#lost !== null) flows.watch();
    return bridge;
  }

  /** No guest is there any more: nothing of ours stays. */
  async #leave(name: string): Promise<void> {
    const { ovs } = this.#parts;
    const bridge = this.#bridges.get(name);
    const isThere = ovs.bridges().has(name);
    bridge?.flows.close();
    this.#bridges.delete(name);
    // First: what reaches the listener is answered.
    if (isThere) await bridge?.flows.clear();
    await this.#closeDoor(name);
  }

  async #closeDoor(name: string): Promise<void> {
    for (const port of this.#doorPorts.list()) if (port.bridge === name) await this.#doorPorts.unplug(port);
    await this.#parts.doors.remove(DOOR_PREFIX + name);
  }

  /** Every bridge on which an earlier process may have left flows: it leaves them without a door. */
  #openAll(): void {
    const { ovs } = this.#parts;
    for (const [name, { datapath }] of ovs.bridges())
      if (datapath === "userspace" && !ovs.isOfOvn(name)) this.#open(name);
  }

  /** Resolves with whether somebody else had changed something. */
  async #serve(name: string, bridge: Bridge, again: boolean): Promise<boolean> {
    const { ovs, doors } = this.#parts;
    const found = ovs.bridges().get(name);
    if (found === undefined) throw new Error(`there is no bridge ${name} any more`);
    if (found.datapath !== "userspace") throw new Error(`the datapath of ${name} is the kernel's now`);
    if (ovs.isOfOvn(name)) throw new Error(`${name} cannot be used: ${ofOvn(name)}`);
    let door = bridge.door;
    let replugged = false;
    if (again || door === null || !this.#doorPorts.isPlugged(name, door)) {
      const plugged = await this.#doorPorts.plug(name, await doors.ensure(DOOR_PREFIX + name));
      replugged = plugged.isNew && door !== null;
      door = plugged.ofport;
    }
    await this.#numbered(name, bridge);
    // After a restart the database may still have the numbers from before.
    const numbers = again ? await bridge.flows.ports() : null;
    bridge.door = door;
    const repaired = await bridge.flows.write(this.#plan(name, bridge, { door, numbers }), again);
    return repaired || replugged;
  }

  /** Waits for the numbers of new ports, of each only once. */
  async #numbered(name: string, bridge: Bridge): Promise<void> {
    const { ovs } = this.#parts;
    const fresh = bridge.admitted.filter(({ address }) => !bridge.awaited.has(address));
    bridge.awaited = new Set(bridge.admitted.map(({ address }) => address));
    const isDone = () => fresh.every(({ port }) => isNumbered(ovs.ports().get(port.link), name));
    await ovs.until(() => (isDone() ? true : null), NUMBER_MS_MAX);
  }

  #plan(
    name: string,
    bridge: Bridge,
    { door, numbers }: { readonly door: number | null; readonly numbers: ReadonlyMap<string, number> | null },
  ): BridgePlan {
    const { ovs, doors } = this.#parts;
    const failed = new Map<PortAddress, string>();
    const guests = new Map<number, GuestFlowPort>();
    for (const { address, port, mac } of bridge.admitted) {
      const found = ovs.ports().get(port.link);
      const why = whyNot(port, found, name);
      if (why !== null || found === undefined || found.ofport === null) {
        failed.set(address, why ?? `${port.link} has no number yet`);
        continue;
      }
      const { ofport, untaggedVlan } = found;
      if (numbers !== null && numbers.get(port.link) !== ofport) failed.set(address, `${port.link} is renumbered`);
      else guests.set(ofport, { ofport, address, mac, untaggedVlan });
    }
    bridge.failed = failed;
    const others = [...ovs.ports().values()].flatMap(({ bridge: of, ofport, untaggedVlan }) =>
      of !== name || ofport === null || ofport === door || guests.has(ofport) ? [] : [{ ofport, untaggedVlan }],
    );
    const { serviceMac, secretMac, doorMac } = doors;
    return { door, serviceMac, secretMac, doorMac, guests: [...guests.values()], others };
  }

  /** The switch's ports have changed: flows follow at once, and whoever lost or found a port is told of. */
  async #follow(): Promise<void> {
    const seen = this.#fingerprint();
    if (seen === this.#seen || this.#lost === null) return;
    this.#seen = seen;
    let isLost = false;
    for (const [name, bridge] of this.#bridges) {
      const before = [...bridge.failed.keys()].join();
      try {
        if (bridge.door === null || !this.#doorPorts.isPlugged(name, bridge.door)) throw new Error("its door is gone");
        const plan = this.#plan(name, bridge, { door: bridge.door, numbers: null });
        await bridge.flows.write(plan, false);
        isLost ||= [...bridge.failed.keys()].join() !== before;
      } catch {
        isLost = true;
      }
    }
    if (isLost) this.#lost?.();
  }

  #fingerprint(): string {
    const { ovs } = this.#parts;
    const ports = [...ovs.ports().values()]
      .filter(({ bridge }) => this.#bridges.has(bridge))
      .map((port) => [port.link, port.bridgeUuid, port.portUuid, port.ofport, port.ifindex, port.untaggedVlan]);
    const bridges = [...this.#bridges.keys()].map((name) => [name, ovs.bridges().get(name), ovs.isOfOvn(name)]);
    return JSON.stringify([ovs.connected, bridges, ports]);
  }
}

function ofOvn(bridge: string): string {
  return `ovn-controller writes the flows of ${bridge}, and deletes those of others; there an OVN balancer can serve guests`;
}

function byBridge(ports: readonly AdmittedPort[]): ReadonlyMap<string, readonly AdmittedPort[]> {
  const bridges = new Map<string, AdmittedPort[]>();
  for (const admitted of ports) {
    const name = admitted.port.door.slice(DOOR_PREFIX.length);
    const others = bridges.get(name);
    if (others === undefined) bridges.set(name, [admitted]);
    else others.push(admitted);
  }
  return bridges;
}

function isNumbered(port: OvsPort | undefined, bridge: string): boolean {
  return port === undefined || port.bridge !== bridge || port.ofport !== null || port.error !== null;
}

/** Why the port that was found is not what a guest was admitted at; null: it is. */
function whyNot({ link, ifindex }: PortRef, found: OvsPort | undefined, bridge: string): string | null {
  if (found === undefined) return `${link} is no port of Open vSwitch any more`;
  if (found.bridge !== bridge) return `${link} is a port of ${found.bridge} now`;
  if (hostLink(link)?.ifindex !== ifindex) return `its link ${link} was created again`;
  if (found.ofport === null) return `Open vSwitch gives ${link} no number: ${found.error ?? "not yet"}`;
  return found.ifindex === ifindex ? null : `Open vSwitch has not opened ${link} yet`;
}
