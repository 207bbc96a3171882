import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Log } from "../platform/log.ts";
import type { Clock } from "../platform/time.ts";
import { Follower } from "./drivers/nft/follower.ts";
import { closeDevices, closedDevices, concernsDevices, openDevices } from "./own-address-rules.ts";

const LINKS = "/sys/class/net";

export interface NodeGuardParts {
  /** Keeps where rules are: the next process opens what it does not want. */
  readonly runDir: string;
  /** The Open vSwitch bridge that a link is plugged into; null: none. */
  readonly ovsBridgeOf: (link: string) => Promise<string | null>;
  readonly log: Log;
  readonly clock: Clock;
  /** Somebody else had changed the rules; they are as they were. */
  readonly repaired: () => void;
}

/**
 * Keeps guests from a 169.254.169.254 of the node itself or beyond it, whatever becomes of the drivers' rules: by routing
 * rules, which outlive this process, and which `nft flush ruleset` does not touch (docs/decisions/0052). They are for
 * the devices by which frames of guests enter the node's IP, so that all guests of a bridge are kept from it.
 */
export class NodeGuard {
  readonly #parts: NodeGuardParts;
  readonly #path: string;
  /** Where rules are that this run directory wants, or wanted. */
  #closed: ReadonlySet<string>;
  #isSuspect = true;
  #problem = "";
  #follower: Follower | null = null;

  constructor(parts: NodeGuardParts) {
    this.#parts = parts;
    this.#path = join(parts.runDir, "closed-devices");
    const kept = existsSync(this.#path) ? readFileSync(this.#path, "utf8") : "";
    this.#closed = new Set(kept.split("\n").filter((device) => device !== ""));
  }

  /** Closes the devices behind these links, and opens those that are behind none any more. `again`: looks at what is there. */
  async sync(links: readonly string[], again: boolean): Promise<void> {
    const wanted = await this.#devicesOf(links);
    if (again || this.#isSuspect || !sameSet(this.#closed, wanted)) await this.#bring(wanted);
  }

  /** Closes the devices behind these links, too. */
  async add(links: readonly string[]): Promise<void> {
    await this.#bring(new Set([...this.#closed, ...(await this.#devicesOf(links))]));
  }

  async #bring(wanted: ReadonlySet<string>): Promise<void> {
    const { log, repaired } = this.#parts;
    const before = this.#closed;
    this.#isSuspect = false;
    try {
      const there = await closedDevices();
      const missing = [...wanted].filter((device) => !there.has(device));
      this.#keep(new Set([...before, ...wanted]));
      await closeDevices(missing);
      await openDevices([...before].filter((device) => !wanted.has(device)));
      this.#keep(wanted);
      if (missing.some((device) => before.has(device))) repaired();
      this.#problem = "";
    } catch (error) {
      this.#isSuspect = true;
      const problem = (error as Error).message;
      if (problem !== this.#problem)
        log.error(
          { problem },
          "guests can reach the node's own 169.254.169.254 while nftables' rules are missing",
        );
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

  /** Stops watching. Leaves the rules. */
  close(): void {
    this.#follower?.close();
  }

  #keep(devices: ReadonlySet<string>): void {
    if (sameSet(devices, this.#closed)) return;
    this.#closed = devices;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o711 });
    writeFileSync(this.#path, [...devices].map((device) => `${device}\n`).join(""), { mode: 0o600 });
  }

  /** Bridges, with the VLANs above them, or the links themselves where they are plugged into none. */
  async #devicesOf(links: readonly string[]): Promise<ReadonlySet<string>> {
    const devices = new Set<string>();
    for (const link of links) {
      const master = masterOf(link);
      if (master === null || master === "ovs-system") {
        const bridge = await this.#parts.ovsBridgeOf(link);
        if (bridge !== null) devices.add(bridge);
        // In userspace the switch has a copy of the frames, and the node's IP hears the link too.
        if (master === null) devices.add(link);
      } else if (!devices.has(master)) {
        devices.add(master);
        for (const file of filesOf(master)) if (file.startsWith("upper_")) devices.add(file.slice(6));
      }
    }
    return devices;
  }
}

function masterOf(link: string): string | null {
  try {
    return basename(readlinkSync(`${LINKS}/${link}/master`));
  } catch {
    return null;
  }
}

function filesOf(link: string): readonly string[] {
  try {
    return readdirSync(`${LINKS}/${link}`);
  } catch {
    return [];
  }
}

function sameSet(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return one.size === other.size && [...one].every((element) => other.has(element));
}
