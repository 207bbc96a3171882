import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { JsonFields } from "../platform/json-fields.ts";
import type { Clock } from "../platform/time.ts";
import type { PortRef } from "./drivers/driver.ts";
import type { GuestSpace } from "./guest-space.ts";
import { mapFile } from "./haproxy/haproxy-text.ts";
import { isLinkName } from "./kernel/links.ts";
import { PORT_ADDRESS_FIRST, PORT_ADDRESS_LAST, type PortAddress } from "./kernel/port-address.ts";

/** A port that was found and has an address. */
export interface KnownPort {
  readonly address: PortAddress;
  readonly port: PortRef;
  /** Of the guest, as requested or as first seen. */
  readonly mac: string;
  readonly space: GuestSpace;
}

/** A port that was found for a driver that is no longer used. */
export interface DemotedPort extends Pick<KnownPort, "mac" | "space"> {
  readonly link: string;
  readonly ifindex: number;
}

const BLOCK_BITS = 16;
const BLOCK_FIRST = PORT_ADDRESS_FIRST >>> BLOCK_BITS;
const BLOCK_LAST = PORT_ADDRESS_LAST >>> BLOCK_BITS;
const BLOCKS = BLOCK_LAST - BLOCK_FIRST + 1;
const NUMBER_MAX = (1 << BLOCK_BITS) - 1;

const MAC = /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/;
const DRIVERS = ["ingress", "openflow", "bridge"];

interface DoorBlocks {
  readonly blocks: number[];
  next: number;
}

interface Content {
  readonly secretMac: string;
  nextBlock: number;
  readonly doors: Record<string, DoorBlocks>;
  readonly ports: Readonly<Record<string, KnownPort>>;
  readonly demoted: Readonly<Record<string, DemotedPort>>;
}

/**
 * Which port and address each attachment has. Kept in a file, because what can be seen at an attachment's making cannot
 * be seen later: KubeVirt renames the interface in the pod and gives it another MAC. Addresses are counted up and never
 * used again: an answer that is still under way must not reach another guest.
 */
export class PortMemory {
  readonly #path: string;
  readonly #content: Content;
  readonly #ports: Map<string, KnownPort>;
  readonly #demoted: Map<string, DemotedPort>;
  /** Keys by index of the link. */
  readonly #owners: Map<number, string>;
  /** Keys of ports whose addresses are not in the file yet. */
  readonly #unwritten = new Set<string>();
  /** Blocks that haproxy may still have from before the file was lost. */
  readonly #mapped: ReadonlySet<number>;
  #changed = true;

  constructor(runDir: string, clock: Pick<Clock, "random" | "randomBytes">) {
    this.#path = join(runDir, "ports.json");
    this.#content = readContent(this.#path, clock);
    this.#mapped = mappedBlocks(mapFile(runDir));
    this.#ports = new Map(Object.entries(this.#content.ports));
    this.#demoted = new Map(Object.entries(this.#content.demoted));
    this.#owners = new Map([...this.#ports].map(([key, { port }]) => [port.ifindex, key]));
  }

  /** Source MAC of frames that the listener takes. */
  get secretMac(): string {
    return this.#content.secretMac;
  }

  get(key: string): KnownPort | undefined {
    return this.#ports.get(key);
  }

  entries(): IterableIterator<[string, KnownPort]> {
    return this.#ports.entries();
  }

  demoted(key: string): DemotedPort | undefined {
    return this.#demoted.get(key);
  }

  /** Gives a port the next address of its door. */
  add(key: string, port: PortRef, guestMac: string, space: GuestSpace): KnownPort {
    const known = { address: this.#nextAddress(port.door), port, mac: guestMac, space };
    this.#ports.set(key, known);
    this.#unwritten.add(key);
    this.#owners.set(port.ifindex, key);
    this.#demoted.delete(key);
    this.#changed = true;
    return known;
  }

  delete(key: string): void {
    if (this.#demoted.delete(key)) this.#changed = true;
    const known = this.#ports.get(key);
    if (known === undefined) return;
    this.#ports.delete(key);
    this.#unwritten.delete(key);
    if (this.#owners.get(known.port.ifindex) === key) this.#owners.delete(known.port.ifindex);
    this.#changed = true;
  }

  /** Whose port the link of an index is; null: nobody's. */
  ownerOf(ifindex: number): string | null {
    return this.#owners.get(ifindex) ?? null;
  }

  /** Takes a port's address, but remembers where it is: another driver is to have it. */
  demote(key: string): void {
    const known = this.#ports.get(key);
    if (known === undefined) return;
    this.delete(key);
    const { port, mac, space } = known;
    this.#demoted.set(key, { link: port.link, ifindex: port.ifindex, mac, space });
  }

  keepOnly(wanted: { has(key: string): boolean }): void {
    for (const key of this.#ports.keys()) if (!wanted.has(key)) this.delete(key);
    for (const key of this.#demoted.keys()) if (!wanted.has(key) && this.#demoted.delete(key)) this.#changed = true;
  }

  /** Upper 16 bits of the addresses behind a door: at least one number. */
  blocksOf(door: string): readonly number[] {
    return this.#doorOf(door).blocks;
  }

  get hasUnwritten(): boolean {
    return this.#unwritten.size > 0;
  }

  /** Whether a crash would make the port's address another's. */
  isUnwritten(key: string): boolean {
    return this.#unwritten.has(key);
  }

  save(): void {
    if (!this.#changed && existsSync(this.#path)) return;
    const content: Content = {
      ...this.#content,
      ports: Object.fromEntries(this.#ports),
      demoted: Object.fromEntries(this.#demoted),
    };
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o711 });
    writeFileSync(`${this.#path}.new`, JSON.stringify(content), { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#changed = false;
    this.#unwritten.clear();
  }

  #doorOf(door: string) {
    const { doors } = this.#content;
    doors[door] ??= { blocks: [this.#nextBlock()], next: 1 };
    return doors[door];
  }

  #nextAddress(door: string): PortAddress {
    const own = this.#doorOf(door);
    if (own.next > NUMBER_MAX) {
      own.blocks.push(this.#nextBlock());
      own.next = 1;
    }
    const address = (own.blocks.at(-1) as number) * 2 ** BLOCK_BITS + own.next;
    own.next += 1;
    return address as PortAddress;
  }

  /** The block after the last one that was given; after 134 million addresses, the oldest that no door has. */
  #nextBlock(): number {
    const content = this.#content;
    const taken = new Set(Object.values(content.doors).flatMap(({ blocks }) => blocks));
    for (const block of this.#mapped) taken.add(block);
    let next = content.nextBlock;
    while (taken.has(next)) next = blockAfter(next);
    content.nextBlock = blockAfter(next);
    this.#changed = true;
    return next;
  }
}

/** Of the addresses in haproxy's map: whatever is there of an earlier run was written to it before it was used. */
function mappedBlocks(path: string): ReadonlySet<number> {
  try {
    const keys = readFileSync(path, "utf8").matchAll(/^([0-9A-F]{4})[0-9A-F]{4} /gm);
    return new Set([...keys].map(([, block]) => Number.parseInt(block as string, 16)));
  } catch {
    return new Set();
  }
}

function blockAfter(one: number): number {
  return BLOCK_FIRST + ((one - BLOCK_FIRST + 1) % BLOCKS);
}

function readContent(path: string, clock: Pick<Clock, "random" | "randomBytes">): Content {
  try {
    const content = new JsonFields(JSON.parse(readFileSync(path, "utf8")));
    return {
      secretMac: content.string("secretMac", isMac),
      nextBlock: readBlock(content.get("nextBlock")),
      doors: Object.fromEntries(content.entries("doors", readDoor)),
      ports: Object.fromEntries(content.entries("ports", readKnownPort)),
      demoted: Object.fromEntries(content.entries("demoted", readDemotedPort)),
    };
  } catch {
    // Not there, cut short or of somebody else: everything is looked up again, and has other addresses than before.
    return newContent(clock);
  }
}

function newContent(clock: Pick<Clock, "random" | "randomBytes">): Content {
  const nextBlock = BLOCK_FIRST + Math.floor(clock.random() * BLOCKS);
  return { secretMac: randomMac(clock), nextBlock, doors: {}, ports: {}, demoted: {} };
}

function readBlock(value: unknown): number {
  return new JsonFields({ block: value }).integer("block", BLOCK_FIRST, BLOCK_LAST);
}

function readDoor(value: unknown): DoorBlocks {
  const door = new JsonFields(value);
  const blocks = door.list("blocks", readBlock);
  if (blocks.length === 0) throw new Error("blocks: expected one");
  return { blocks, next: door.integer("next") };
}

function readKnownPort(value: unknown): KnownPort {
  const known = new JsonFields(value);
  const ref = new JsonFields(known.get("port"));
  return {
    address: known.integer("address", PORT_ADDRESS_FIRST, PORT_ADDRESS_LAST) as PortAddress,
    port: {
      driver: ref.string("driver", (name) => DRIVERS.includes(name)) as PortRef["driver"],
      link: ref.string("link", isLinkName),
      ifindex: ref.integer("ifindex"),
      door: ref.string("door"),
    },
    mac: known.string("mac", isMac),
    space: readSpace(known.get("space")),
  };
}

function readDemotedPort(value: unknown): DemotedPort {
  const port = new JsonFields(value);
  return {
    link: port.string("link", isLinkName),
    ifindex: port.integer("ifindex"),
    mac: port.string("mac", isMac),
    space: readSpace(port.get("space")),
  };
}

function readSpace(value: unknown): GuestSpace {
  const space = new JsonFields(value);
  return { netns: space.string("netns"), id: space.get("id") === null ? null : space.integer("id") };
}

function isMac(text: string): boolean {
  return MAC.test(text);
}

/** Locally administered, for one station. */
function randomMac(clock: Pick<Clock, "randomBytes">): string {
  const bytes = clock.randomBytes(6);
  bytes[0] = ((bytes[0] as number) & 0xfc) | 0x02;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}
