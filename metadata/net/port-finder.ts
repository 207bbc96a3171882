import type { DatapathDriver, HostSideLink, PortRef } from "./drivers/driver.ts";
import { type Guest, macText } from "./guest.ts";
import { guestSpace } from "./guest-space.ts";
import { type Lookup, type NotFound, namesOf, type OthersPorts, PortLookup } from "./port-lookup.ts";
import type { PortMemory } from "./port-memory.ts";
import type { FoundPort } from "./port-search.ts";

/** Finds where a guest's frames come in, which driver takes them, and the guest's MAC. */
export class PortFinder {
  readonly #memory: PortMemory;
  readonly #drivers: readonly DatapathDriver[];
  readonly #lookup = new PortLookup();

  /** The first driver that claims a link has it. */
  constructor(memory: PortMemory, drivers: readonly DatapathDriver[]) {
    this.#memory = memory;
    this.#drivers = drivers;
  }

  /** `guests`: all that are wanted, by key. */
  async find(key: string, guest: Guest, guests: ReadonlyMap<string, Guest>): Promise<FoundPort | NotFound> {
    const found =
      this.#again(key, guest) ?? (await this.#lookup.find(guest.wanted, this.#others(key, guest, guests)));
    if (found.kind !== "found") return found;
    const mac = guest.mac ?? macText(found.mac);
    if (mac === null) {
      const name = guest.wanted.interface;
      return { kind: "pending", problem: `the MAC address of ${name} is not known; request one` };
    }
    const port = await this.#claim(found.link);
    return "problem" in port ? port : { kind: "found", port, mac, space: found.space };
  }

  /** Where it was found once; null: it was not, or that is not there any more, or another attachment's. */
  #again(key: string, { wanted }: Guest): Extract<Lookup, { kind: "found" }> | null {
    const former = this.#memory.former(key);
    if (former === undefined || this.#isOthers(former.ifindex, key)) return null;
    const link = this.#lookup.again(former);
    const { mac, space } = former;
    return link === null ? null : { kind: "found", link, mac, space: space ?? guestSpace(wanted.netns) };
  }

  async #claim(link: HostSideLink): Promise<PortRef | NotFound> {
    for (const driver of this.#drivers) {
      const port = await driver.claim(link);
      if (port !== null) return port;
    }
    const what = `${link.name}, a link of the kind ${link.kind || "of a physical device"}`;
    return { kind: "final", problem: `no driver of this node serves ${what}` };
  }

  #isOthers(ifindex: number, own: string): boolean {
    const owner = this.#memory.ownerOf(ifindex);
    return owner !== null && owner !== own;
  }

  #others(own: string, { wanted }: Guest, guests: ReadonlyMap<string, Guest>): OthersPorts {
    return {
      isTaken: (ifindex) => this.#isOthers(ifindex, own),
      isNamed: (name) => {
        for (const [key, guest] of guests) {
          if (key === own || guest.wanted.netns !== wanted.netns) continue;
          if (namesOf(guest.wanted.interface).includes(name)) return true;
        }
        return false;
      },
    };
  }
}
