/*
 * metadata/net/drivers/ingress/: takes frames of guests at the ingress hook of their host-side links
 *
 *   ingress-driver   the driver
 *   ruleset          the rules: a table of family netdev, one part for all ports and a little for each
 *   table            what is there, and the commands that change it
 *   probe            what the kernel can do
 */

import { existsSync, readFileSync } from "node:fs";
import { isIP } from "node:net";
import type { Clock } from "../../../../platform/time.ts";
import { run } from "../../kernel/run.ts";
import type { PortAddress } from "../../port-address.ts";
import type {
  AdmittedPort,
  DatapathDriver,
  HostSideLink,
  ListenerDoors,
  PortRef,
  Probe,
  SyncResult,
} from "../driver.ts";
import { Follower } from "../follower.ts";
import { hasEgressHook, probeIngress } from "./probe.ts";
import { RulesetBuilder } from "./ruleset.ts";
import { type Line, linesBetween, readTable, sameState, stateOf, type TableState } from "./table.ts";

const DOOR = "main";
/** nft takes no other name in a device clause; a container names only links in its own namespace. */
const DEVICE_NAME = /^[A-Za-z0-9_.:@+-]{1,15}$/;
/** How often ports that nft refuses are left out and the rest is tried again. */
const ATTEMPTS_MAX = 5;
/** ARPHRD_ETHER */
const ETHERNET = "1";
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/;

export interface IngressParts {
  /** Name of the table in family netdev. */
  readonly table: string;
  readonly doors: ListenerDoors;
  readonly clock: Clock;
}

/** Every interface with a host-side veth or tap, whatever that is plugged into. */
export class IngressDriver implements DatapathDriver {
  readonly kind = "ingress";
  readonly #parts: IngressParts;
  /** null: not known yet. */
  #egress: boolean | null = null;
  #door: Door | null = null;
  /** What was last carried out; null: not known. */
  #applied: TableState | null = null;
  /** Links in the table, by index. */
  #links: ReadonlyMap<number, string> = new Map();
  /** Names of the links of all ports. */
  #names: ReadonlySet<string> = new Set();
  #followers: readonly Follower[] = [];
  /** The work at hand and all that waits for it. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(parts: IngressParts) {
    this.#parts = parts;
  }

  async probe(): Promise<Probe> {
    const probe = await probeIngress();
    this.#egress = probe.egress;
    return probe.result;
  }

  async claim({ name, ifindex, kind }: HostSideLink): Promise<PortRef | null> {
    if ((kind !== "veth" && kind !== "tun") || readLink(name, "type") !== ETHERNET) return null;
    if (!DEVICE_NAME.test(name))
      throw new Error(`the link ${JSON.stringify(name)} has a name that cannot be used in rules; rename it`);
    return { driver: this.kind, link: name, ifindex, door: DOOR };
  }

  sync(ports: readonly AdmittedPort[], again: boolean): Promise<SyncResult> {
    return this.#inTurn(() => this.#sync(ports, again));
  }

  watch(lost: () => void): void {
    const { clock, table } = this.#parts;
    const deleted = `delete table netdev ${table}`;
    this.#followers = [
      new Follower(["nft", "monitor", "destroy", "tables"], clock, {
        heard: (line) => {
          if (line.startsWith(deleted)) lost();
        },
        ended: lost,
      }),
      new Follower(["ip", "-o", "monitor", "link"], clock, {
        heard: (line) => {
          if (concerns(line, this.#links, this.#names)) lost();
        },
        ended: lost,
      }),
    ];
  }

  close(): void {
    for (const follower of this.#followers) follower.close();
    this.#followers = [];
  }

  remove(): Promise<void> {
    return this.#inTurn(() => this.#removeTable());
  }

  async #sync(ports: readonly AdmittedPort[], again: boolean): Promise<SyncResult> {
    if (ports.length === 0) {
      if (again || this.#applied === null || this.#applied.chains.size > 0) await this.#removeTable();
      return { failed: new Map(), repaired: false };
    }
    if (again || this.#door === null) this.#door = await this.#openDoor(this.#door);
    const { builder, link: doorLink } = this.#door;
    const known = this.#applied;
    const inTable = ({ link, ifindex }: PortRef) => !again && this.#links.get(ifindex) === link;
    const { admitted, failed } = choosePorts(ports, inTable);
    this.#names = new Set([doorLink.link, ...ports.map(({ port }) => port.link)]);
    let present = again || known === null ? await readTable(this.#parts.table) : known;
    const repaired = again && known !== null && (present === null || !sameState(known, present));
    for (let attempt = 1; ; attempt += 1) {
      const wanted = admitted.filter(({ address }) => !failed.has(address));
      const ruleset = builder.build(wanted);
      const refused = await this.#change(linesBetween(this.#parts.table, present, ruleset));
      if (refused === null) {
        this.#applied = stateOf(ruleset);
        const links = [doorLink, ...wanted.map(({ port }) => port)];
        this.#links = new Map(links.map(({ ifindex, link }) => [ifindex, link]));
        return { failed, repaired };
      }
      this.#applied = null;
      for (const [address, why] of refused.ports) failed.set(address, why);
      if (attempt === ATTEMPTS_MAX || (refused.ports.size === 0 && present === null))
        throw new Error(`nft refuses the rules of table ${this.#parts.table}: ${refused.text}`);
      // What was believed to be there is not; or what is there cannot be changed, and is replaced.
      if (refused.ports.size === 0) present = attempt === 1 ? await readTable(this.#parts.table) : null;
    }
  }

  async #openDoor(before: Door | null): Promise<Door> {
    const { outer, ifindex } = await this.#parts.doors.ensure(DOOR);
    if (before?.link.link === outer && before.link.ifindex === ifindex) return before;
    this.#egress ??= await hasEgressHook();
    const door = { outer, ifindex };
    const { serviceMac, secretMac, doorMac } = this.#parts.doors;
    const builder = new RulesetBuilder({ door, serviceMac, secretMac, doorMac, egress: this.#egress });
    return { link: { link: outer, ifindex }, builder };
  }

  /** One transaction. null: it was carried out. */
  async #change(lines: readonly Line[]): Promise<Refused | null> {
    if (lines.length === 0) return null;
    const ran = await run("nft", ["-f", "-"], `${lines.map(({ text }) => text).join("\n")}\n`);
    return ran.code === 0 ? null : readRefusal(ran.stderr, lines);
  }

  async #removeTable(): Promise<void> {
    this.#applied = null;
    this.#links = new Map();
    this.#names = new Set();
    const { table } = this.#parts;
    const ran = await run("nft", ["-f", "-"], `table netdev ${table} {}\ndelete table netdev ${table}\n`);
    if (ran.code !== 0 && (await readTable(table)) !== null)
      throw new Error(`nft cannot delete the table ${table}: ${ran.stderr.trim().slice(0, 300)}`);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}

interface Door {
  readonly link: Pick<PortRef, "link" | "ifindex">;
  readonly builder: RulesetBuilder;
}

interface Refused {
  readonly text: string;
  /** By the lines that nft complains of. */
  readonly ports: ReadonlyMap<PortAddress, string>;
}

/** `/dev/stdin:12:1-60: Error: Could not process rule: No such file or directory` */
function readRefusal(stderr: string, lines: readonly Line[]): Refused {
  const ports = new Map<PortAddress, string>();
  for (const [, line, why] of stderr.matchAll(/^[^:\n]*:(\d+):\d+-\d+: Error: (.*)$/gm)) {
    const address = lines[Number(line) - 1]?.address ?? null;
    if (address !== null) ports.set(address, `nft refuses the rules of its link: ${why}`);
  }
  return { ports, text: stderr.trim().slice(0, 300) };
}

/** The ports whose links are there, the newer one of two that have the same link. `known`: need not be looked at again. */
function choosePorts(ports: readonly AdmittedPort[], known: (port: PortRef) => boolean) {
  const failed = new Map<PortAddress, string>();
  const byLink = new Map<number, AdmittedPort>();
  for (const admitted of ports) {
    const { address, port } = admitted;
    const why = (known(port) ? null : whyNot(port)) ?? whyMalformed(admitted);
    const older = byLink.get(port.ifindex);
    if (why !== null) {
      failed.set(address, why);
      continue;
    }
    if (older !== undefined) failed.set(older.address, `its link ${port.link} belongs to a newer attachment`);
    byLink.set(port.ifindex, admitted);
  }
  return { admitted: [...byLink.values()], failed };
}

function whyNot({ link, ifindex }: PortRef): string | null {
  const now = readLink(link, "ifindex");
  if (now === null) return `its link ${link} is gone`;
  if (now !== String(ifindex)) return `its link ${link} was made anew`;
  // nft would take the number for the name.
  if (existsSync(`/sys/class/net/${ifindex}`))
    return `there is a link named "${ifindex}", which is the index of ${link}; rename it`;
  return null;
}

/** What nft would refuse together with all other ports. */
function whyMalformed({ mac, formerGateways }: AdmittedPort): string | null {
  if (!MAC.test(mac)) return `its MAC ${JSON.stringify(mac)} is none`;
  const bad = formerGateways.find((gateway) => isIP(gateway) !== 4);
  return bad === undefined ? null : `its former gateway ${JSON.stringify(bad)} is no IPv4 address`;
}

/** Whether a line of `ip monitor link` says that a link in the table went or was renamed, or that a name was taken. */
function concerns(line: string, links: ReadonlyMap<number, string>, names: ReadonlySet<string>): boolean {
  const [, deleted, index, rest] = /^(Deleted )?(\d+): (.*)$/.exec(line) ?? [];
  if (index === undefined || rest === undefined) return false;
  const name = links.get(Number(index));
  const isCalled = (one: string) => rest.startsWith(`${one}:`) || rest.startsWith(`${one}@`);
  if (name !== undefined) return deleted !== undefined || !isCalled(name);
  return deleted === undefined && [...names].some(isCalled);
}

function readLink(name: string, file: "ifindex" | "type"): string | null {
  try {
    return readFileSync(`/sys/class/net/${name}/${file}`, "utf8").trim();
  } catch {
    return null;
  }
}
