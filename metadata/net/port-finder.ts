import type { DatapathDriver, HostSideLink } from "./drivers/driver.ts";
import { type Guest, macText } from "./guest.ts";
import { type NotFound, namesOf, type OthersPorts, PortLookup } from "./port-lookup.ts";
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
    const former = this.#memory.former(key);
    const before = former === undefined ? null : this.#lookup.again(former);
    const found =
      before === null
        ? await this.#lookup.find(guest.wanted, this.#others(key, guest, guests))
        : ({ kind: "found", link: before, mac: former?.mac ?? null } as const);
    if (found.kind !== "found") return found;
    const mac = guest.mac ?? macText(found.mac);
    if (mac === null) {
      const name = guest.wanted.interface;
      return { kind: "pending", problem: `the MAC address of ${name} is not known; request one` };
    }
    return this.#claim(found.link, mac);
  }

  async #claim(link: HostSideLink, mac: string): Promise<FoundPort | NotFound> {
    for (const driver of this.#drivers) {
      const port = await driver.claim(link);
      if (port !== null) return { kind: "found", port, mac };
    }
    const what = `${link.name}, a link of the kind ${link.kind || "of a physical device"}`;
    return { kind: "final", problem: `no driver of this node serves ${what}` };
  }

  #others(own: string, { wanted }: Guest, guests: ReadonlyMap<string, Guest>): OthersPorts {
    return {
      isTaken: (ifindex) => {
        const owner = this.#memory.ownerOf(ifindex);
        return owner !== null && owner !== own;
      },
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
