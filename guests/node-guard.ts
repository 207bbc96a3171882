import { readdirSync } from "node:fs";
import type { Log } from "../platform/log.ts";
import type { Clock } from "../platform/time.ts";
import { METADATA_IPV4 } from "./drivers/driver.ts";
import { Follower } from "./drivers/nft/follower.ts";
import { type GuardMemory, sameSet } from "./guard-memory.ts";
import { run } from "./kernel/run.ts";
import { masterOf } from "./kernel/sysfs.ts";

const LINKS = "/sys/class/net";

/** Of all instances, whatever their run directory: one moves the rule `lookup local`. A directory: no file is left. */
const LOCK = "/run";
/** Before everything else: the kernel looks for its own addresses at this priority, too. */
const FIRST = "0";
/** For the moment in which a rule is put before `lookup local`. */
const ASIDE = "1";
const BLACKHOLE = `to ${METADATA_IPV4} blackhole`;
/** systemd-networkd deletes all rules that others have made, but those of this protocol. */
const KEPT = "protocol kernel";

/**
 * Puts rules before `lookup local`: the kernel appends to those of the same priority. So that one follows them again.
 * The list is never without it, and a run that was killed in between is completed by the next one. It stays where
 * somebody (Cilium) has moved it further back.
 */
const ADD = `
has() { ip rule show pref $1 | grep -q "from all lookup local"; }
if has ${FIRST}; then
  has ${ASIDE} || ip rule add pref ${ASIDE} lookup local ${KEPT}
  ip rule del pref ${FIRST} lookup local
fi
for device; do
  while ip rule del pref ${FIRST} iif "$device" ${BLACKHOLE} 2>/dev/null; do :; done
  ip rule add pref ${FIRST} iif "$device" ${BLACKHOLE} ${KEPT}
done
if has ${ASIDE}; then
  has ${FIRST} || ip rule add pref ${FIRST} lookup local ${KEPT}
  ip rule del pref ${ASIDE} lookup local
fi`;

const DELETE = `
for device; do while ip rule del pref ${FIRST} iif "$device" ${BLACKHOLE} 2>/dev/null; do :; done; done`;

export interface NodeGuardParts {
  readonly memory: GuardMemory;
  /** The Open vSwitch bridge that a link is plugged into; null: none. */
  readonly ovsBridgeOf: (link: string) => Promise<string | null>;
  readonly log: Log;
  readonly clock: Clock;
  /** Somebody else had changed the rules; they are as they were. */
  readonly repaired: () => void;
}

interface Devices {
  readonly all: ReadonlySet<string>;
  /** Those by which every guest of a bridge enters, also one that nobody has found yet. */
  readonly bridges: ReadonlySet<string>;
}

/**
 * Keeps guests from a 169.254.169.254 of the node itself or beyond it, whatever becomes of the drivers' rules: by
 * routing rules, which outlive this process, and which `nft flush ruleset` does not touch (docs/decisions/0052). They
 * are for the devices by which frames of guests enter the node's IP, so that all guests of a bridge are kept from it.
 */
export class NodeGuard {
  readonly #parts: NodeGuardParts;
  /** Where rules are that this run directory wants, or wanted. */
  #closed: Devices;
  /** Where rules of this boot are, unless somebody else took them away. */
  #placed: ReadonlySet<string>;
  #isSuspect = true;
  #problem = "";
  #follower: Follower | null = null;

  constructor(parts: NodeGuardParts) {
    this.#parts = parts;
    const { devices, bridges } = parts.memory;
    this.#placed = devices;
    this.#closed = { all: new Set([...devices, ...bridges]), bridges };
  }

  /** Closes what was closed before: after a reboot the bridges, before anybody knows of a guest. */
  restore(): Promise<void> {
    return this.#bring(this.#closed);
  }

  /** Closes the devices behind these links, and opens all others of ours. `again`: looks at what is there. */
  async sync(links: readonly string[], again: boolean): Promise<void> {
    const wanted = await this.#devicesOf(links);
    const isChanged = !(["all", "bridges"] as const).every((key) => sameSet(this.#closed[key], wanted[key]));
    if (again || this.#isSuspect || isChanged) await this.#bring(wanted);
  }

  /** Closes the devices behind these links, too. */
  async add(links: readonly string[]): Promise<void> {
    const { all, bridges } = await this.#devicesOf(links);
    const before = this.#closed;
    await this.#bring({
      all: new Set([...before.all, ...all]),
      bridges: new Set([...before.bridges, ...bridges]),
    });
  }

  async #bring(wanted: Devices): Promise<void> {
    const { log, memory, repaired } = this.#parts;
    const before = this.#closed.all;
    this.#isSuspect = false;
    try {
      const there = await closedDevices();
      const missing = [...wanted.all].filter((device) => !there.has(device));
      const known = new Set([...before, ...wanted.all]);
      this.#closed = { all: known, bridges: wanted.bridges };
      memory.keep(known);
      // Never more than is in place: ADDs rely on it.
      memory.confirm(new Set([...wanted.bridges].filter((bridge) => there.has(bridge))));
      await closeDevices(missing);
      memory.confirm(wanted.bridges);
      await openDevices([...before].filter((device) => !wanted.all.has(device)));
      this.#closed = wanted;
      memory.keep(wanted.all);
      if (missing.some((device) => this.#placed.has(device))) repaired();
      this.#placed = wanted.all;
      memory.remember(wanted.bridges);
      this.#problem = "";
    } catch (error) {
      this.#isSuspect = true;
      const problem = (error as Error).message;
      if (problem !== this.#problem)
        log.error({ problem }, "guests can reach the node's own 169.254.169.254 while nftables' rules are missing");
      this.#problem = problem;
    }
  }

  /** `lost`: rules were changed; `sync` looks at them. */
  watch(lost: () => void): void {
    const suspect = () => {
      this.#isSuspect = true;
      lost();
    };
    this.#follower = new Follower(["ip", "-4", "-o", "monitor", "rule"], this.#parts.clock, {
      heard: (line) => {
        if (concernsDevices(line)) suspect();
      },
      ended: suspect,
    });
  }

  /** Leaves the rules. */
  close(): void {
    this.#follower?.close();
  }

  /** Bridges, with the VLANs above them, or the links themselves where they are plugged into none. */
  async #devicesOf(links: readonly string[]): Promise<Devices> {
    const devices = new Set<string>();
    const own = new Set<string>();
    for (const link of links) {
      const master = masterOf(link);
      if (master === null || master === "ovs-system") {
        const bridge = await this.#parts.ovsBridgeOf(link);
        if (bridge !== null) devices.add(bridge);
        // In userspace the switch has a copy of the frames, and the node's IP hears the link too.
        if (master === null) for (const device of [link, bridge]) if (device !== null) own.add(device);
        if (master === null) devices.add(link);
      } else if (!devices.has(master)) {
        devices.add(master);
        for (const file of filesOf(master)) if (file.startsWith("upper_")) devices.add(file.slice(6));
      }
    }
    return { all: devices, bridges: new Set([...devices].filter((device) => !own.has(device))) };
  }
}

function filesOf(link: string): readonly string[] {
  try {
    return readdirSync(`${LINKS}/${link}`);
  } catch {
    return [];
  }
}

interface ShownRule {
  readonly priority: number;
  readonly iif?: string;
  readonly dst?: string;
  readonly action?: string;
  readonly table?: string;
}

/** Devices whose frames reach an address 169.254.169.254 of the node neither locally nor by its routes. */
async function closedDevices(): Promise<ReadonlySet<string>> {
  const shown = await run("ip", ["-4", "-json", "rule", "show"]);
  if (shown.code !== 0) throw new Error(`ip rule: ${shown.stderr.trim().slice(0, 300)}`);
  const closed = new Set<string>();
  for (const { iif, dst, action, table } of JSON.parse(shown.stdout || "[]") as ShownRule[]) {
    if (table === "local") break;
    if (iif !== undefined && dst === METADATA_IPV4 && action === "blackhole") closed.add(iif);
  }
  return closed;
}

/** Throws an Error for the operator. */
function closeDevices(devices: readonly string[]): Promise<void> {
  return inTurn(ADD, devices);
}

function openDevices(devices: readonly string[]): Promise<void> {
  return inTurn(DELETE, devices);
}

/** Whether a line of `ip -o monitor rule` may mean that a rule of ours is gone, or no longer the first. */
function concernsDevices(line: string): boolean {
  return line.startsWith("Deleted") ? line.includes(METADATA_IPV4) : /^0:.* lookup local/.test(line);
}

async function inTurn(script: string, devices: readonly string[]): Promise<void> {
  if (devices.length === 0) return;
  const ran = await run("flock", [LOCK, "sh", "-ec", script, "sh", ...devices]);
  if (ran.code !== 0) throw new Error(`ip rule: ${ran.stderr.trim().slice(0, 300)}`);
}
