/*
 * guests/listener/: the namespace in which haproxy listens, and the doors into it
 *
 *   listener         makes and repairs both
 *   namespace-text   what is in the namespace: addresses of ports, one neighbour that is nobody, who is heard
 */

import { existsSync, writeFileSync } from "node:fs";
import { InTurn } from "../../platform/single-flight.ts";
import type { ListenerDoors, OpenDoor } from "../drivers/driver.ts";
import { doorLink, type Names } from "../kernel/names.ts";
import { mustRun, run } from "../kernel/run.ts";
import { hostLink, hostLinks, namespaceId, namespacePath } from "../kernel/sysfs.ts";
import {
  blockRules,
  DOOR_MAC,
  type DoorPlan,
  doorCommands,
  EMPTY_SCRIPT,
  heardText,
  NOBODY_MAC,
  OUTER_MTU,
  SERVICE_MAC,
  SHOW_SCRIPT,
  SYSCTLS,
} from "./namespace-text.ts";

const MAIN = "main";
/** Before the name of a bridge of Open vSwitch. */
const OVS_DOOR = "ovs:";

interface Door {
  readonly outer: string;
  /** Of the outer end. */
  readonly ifindex: number;
  readonly plan: DoorPlan;
}

export interface ListenerOptions {
  readonly names: Names;
  readonly secretMac: string;
  /** Upper 16 bits of the addresses behind a door. */
  readonly blocksOf: (door: string) => readonly number[];
  /** Somebody else had changed the listener; it is as it was. */
  readonly repaired: (difference: string) => void;
  /** The ports of Services are not heard any more, since the namespace was made anew. */
  readonly portsLost: () => void;
}

/** The listener of this node. Its parts are made when they are needed, and compared when that is asked for. */
export class Listener implements ListenerDoors {
  readonly serviceMac = SERVICE_MAC;
  readonly nobodyMac = NOBODY_MAC;
  readonly doorMac = DOOR_MAC;
  readonly secretMac: string;
  readonly #options: ListenerOptions;
  readonly #doors = new Map<string, Door>();
  /** Of the namespace that was last brought to the planned state; null: none was. */
  #id: number | null = null;
  /** Of Services, beside port 80. */
  #servicePorts: readonly number[] = [];
  /** What the namespace showed then. */
  #shown = "";
  readonly #turns = new InTurn();

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.secretMac = options.secretMac;
  }

  /** Tells this namespace from an earlier one under its name; null: there is none. */
  get namespaceId(): number | null {
    return namespaceId(namespacePath(this.#options.names.namespace));
  }

  /** Makes the namespace if it is not there. `again`: compares whatever is in it, and repairs what differs. */
  prepare(again: boolean): Promise<void> {
    return this.#turns.run(() => this.#prepare(again));
  }

  /** Hears these ports beside 80, and no others. false: there is no listener to try it in. Throws when it cannot. */
  openPorts(ports: readonly number[]): Promise<boolean> {
    return this.#turns.run(async () => {
      if (ports.join() === this.#servicePorts.join()) return true;
      if (this.namespaceId === null || this.namespaceId !== this.#id) return false;
      const before = this.#servicePorts;
      this.#servicePorts = ports;
      try {
        await this.#hear();
      } catch (error) {
        this.#servicePorts = before;
        throw new Error(
          `connections to other ports than 80 are not led on (if the node's kernel lacks nft_tproxy: modprobe nft_tproxy, and a file in /etc/modules-load.d for the next boot): ${(error as Error).message}`,
        );
      }
      this.#shown = await this.#show();
      return true;
    });
  }

  ensure(door: string): Promise<OpenDoor> {
    return this.#turns.run(async () => {
      await this.#prepare(false);
      const known = this.#doors.get(door);
      const blocks = this.#options.blocksOf(door);
      const isThere = known !== undefined && hostLink(known.outer)?.ifindex === known.ifindex;
      if (isThere && known.plan.blocks.length === blocks.length) return this.#open(known, false);
      return this.#makeDoor(door, blocks);
    });
  }

  remove(door: string): Promise<void> {
    return this.#turns.run(async () => {
      await run("ip", ["link", "delete", doorLink(this.#options.names, door)]);
      if (!this.#doors.delete(door)) return;
      await this.#apply();
    });
  }

  /** Takes everything away, also what an earlier process left. */
  removeAll(): Promise<void> {
    return this.#turns.run(async () => {
      const { names } = this.#options;
      // First: a namespace ends some time after its name is gone, and its links with it.
      for (const link of hostLinks()) if (link.startsWith(names.linkPrefix)) await run("ip", ["link", "delete", link]);
      if (existsSync(namespacePath(names.namespace))) await run("ip", ["netns", "delete", names.namespace]);
      this.#doors.clear();
      this.#id = null;
    });
  }

  async #prepare(again: boolean): Promise<void> {
    const { repaired } = this.#options;
    const id = this.namespaceId;
    if (id === null) {
      await this.#makeNamespace();
      if (this.#id !== null) repaired("the namespace was not there");
    } else if (id !== this.#id) {
      // Of an earlier process: what it made stays, and what is missing is added.
      await this.#harden();
      await this.#apply();
    } else if (again) {
      const difference = firstDifference(this.#shown, await this.#show());
      if (difference === null) return;
      await this.#harden();
      await this.#inside(["sh", "-c", EMPTY_SCRIPT], []);
      for (const { outer } of this.#doors.values()) await run("ip", ["link", "set", outer, "up"]);
      await this.#apply();
      repaired(difference);
    } else return;
    this.#id = this.namespaceId;
  }

  async #makeNamespace(): Promise<void> {
    const { namespace } = this.#options.names;
    // A file of that name without a namespace is left when a mount has gone.
    await run("ip", ["netns", "delete", namespace]);
    await mustRun("ip", ["netns", "add", namespace]);
    this.#doors.clear();
    await this.#harden();
    await this.#apply();
  }

  /** Before there is a link in it: it is never open. */
  async #harden(): Promise<void> {
    const script = SYSCTLS.map(
      ([key, value]) => `[ ! -e /proc/sys/net/${key} ] || echo ${value} > /proc/sys/net/${key}`,
    ).join("\n");
    const path = namespacePath(this.#options.names.namespace);
    await mustRun("nsenter", [`--net=${path}`, "sh", "-ec", script]);
    try {
      await this.#hear();
    } catch (error) {
      if (this.#servicePorts.length === 0) throw error;
      // A kernel that cannot lead connections on: port 80 is served all the same.
      this.#servicePorts = [];
      await this.#hear();
      this.#options.portsLost();
    }
  }

  async #hear(): Promise<void> {
    const path = namespacePath(this.#options.names.namespace);
    const text = heardText(this.secretMac, this.#servicePorts);
    await mustRun("nsenter", [`--net=${path}`, "nft", "-f", "-"], text);
  }

  #open({ outer, ifindex, plan }: Door, made: boolean): OpenDoor {
    return { outer, ifindex, inner: plan.inner, namespace: this.#options.names.namespace, made };
  }

  async #makeDoor(door: string, blocks: readonly number[]): Promise<OpenDoor> {
    const { names, repaired } = this.#options;
    const outer = doorLink(names, door);
    const inner = door === MAIN ? "eth0" : `door${(blocks[0] as number).toString(16)}`;
    const isPair = await this.#isPair(outer, inner);
    if (!isPair) {
      await run("ip", ["link", "delete", outer]);
      await run("ip", ["-n", names.namespace, "link", "delete", inner]);
      await mustRun(
        "ip",
        ["-batch", "-"],
        lines([
          `link add ${outer} mtu ${OUTER_MTU} type veth peer name ${inner} mtu ${OUTER_MTU} address ${DOOR_MAC} netns ${names.namespace}`,
        ]),
      );
      if (this.#doors.has(door)) repaired(`the link ${outer} was not there`);
    }
    quiet(outer);
    await mustRun("ip", ["link", "set", outer, "mtu", String(OUTER_MTU), "up"]);
    const ifindex = hostLink(outer)?.ifindex;
    if (ifindex === undefined) throw new Error(`the link ${outer} is gone again`);
    const made = {
      outer,
      ifindex,
      plan: { inner, blocks, isMain: door === MAIN, floods: door.startsWith(OVS_DOOR) },
    };
    this.#doors.set(door, made);
    await this.#apply();
    return this.#open(made, !isPair);
  }

  async #isPair(outer: string, inner: string): Promise<boolean> {
    const { namespace } = this.#options.names;
    const shown = await run("ip", ["-n", namespace, "-json", "link", "show", "dev", inner]);
    if (shown.code !== 0) return false;
    const [link] = JSON.parse(shown.stdout || "[]") as { ifindex: number; link_index?: number }[];
    const here = hostLink(outer);
    return here !== null && link?.link_index === here.ifindex && link.ifindex === here.peerIndex;
  }

  /** Brings the namespace to what the doors need, whatever of it is there, and remembers how that looks. */
  async #apply(): Promise<void> {
    const plans = [...this.#doors.values()].map(({ plan }) => plan);
    const { namespace } = this.#options.names;
    const commands = doorCommands(plans, hasIpv6());
    await mustRun("ip", ["-n", namespace, "-batch", "-"], lines(commands));
    // A rule that is there already is refused, and the rest is carried out.
    await this.#inside(["ip", "-force", "-batch", "-"], blockRules(plans));
    this.#shown = await this.#show();
  }

  async #show(): Promise<string> {
    return (await this.#inside(["sh", "-c", SHOW_SCRIPT], [])).stdout;
  }

  #inside(words: readonly string[], input: readonly string[]) {
    return run("nsenter", [`--net=${namespacePath(this.#options.names.namespace)}`, ...words], lines(input));
  }
}

export function hasIpv6(): boolean {
  return existsSync("/proc/sys/net/ipv6");
}

/** The outer end has no address of its own, whatever the node gives its links. */
function quiet(outer: string): void {
  const path = `/proc/sys/net/ipv6/conf/${outer}/disable_ipv6`;
  if (existsSync(path)) writeFileSync(path, "1");
}

/** null: none. */
function firstDifference(planned: string, found: string): string | null {
  if (planned === found) return null;
  const [before, after] = [planned.split("\n"), found.split("\n")];
  const gone = before.find((line) => !after.includes(line));
  const come = after.find((line) => !before.includes(line));
  return `in the namespace, ${gone === undefined ? `there was "${come}"` : `"${gone}" was not there`}`.slice(0, 300);
}

function lines(commands: readonly string[]): string {
  return `${commands.join("\n")}\n`;
}
