import { canonicalMac } from "../ipam/definition/mac.ts";
import type { DatapathDriver, HostSideLink, PortRef } from "./drivers/driver.ts";
import type { Guest, PodPort } from "./guest.ts";
import { guestSpace } from "./guest-space.ts";
import type { OvnPods } from "./ovn-pods.ts";
import { type Lookup, type NotFound, namesOf, type OthersPorts, PortLookup } from "./port-lookup.ts";
import type { PortMemory } from "./port-memory.ts";
import type { FoundPort } from "./port-search.ts";

/** Finds where a guest's frames come in, which driver takes them, and the guest's MAC. */
export class PortFinder {
  readonly #memory: PortMemory;
  readonly #drivers: readonly DatapathDriver[];
  readonly #pods: OvnPods;
  readonly #lookup = new PortLookup();

  /** The first driver that claims a link has it. */
  constructor(memory: PortMemory, drivers: readonly DatapathDriver[], pods: OvnPods) {
    this.#memory = memory;
    this.#pods = pods;
    this.#drivers = drivers;
  }

  /** `guests`: all that are wanted, by key. */
  async find(key: string, guest: Guest, guests: ReadonlyMap<string, Guest>): Promise<FoundPort | NotFound> {
    const { pod } = guest.wanted;
    if (pod !== undefined) return this.#findPod(key, pod, guest);
    const found = this.#again(key) ?? (await this.#lookup.find(guest.wanted, this.#others(key, guest, guests)));
    if (found.kind !== "found") return found;
    const mac = guest.mac ?? (found.mac === null ? null : canonicalMac(found.mac));
    if (mac === null) {
      const name = guest.wanted.interface;
      return { kind: "pending", problem: `the MAC address of ${name} is not known; request one` };
    }
    const port = await this.#claim(found.link, this.#drivers);
    return "problem" in port ? port : { kind: "found", port, mac, space: found.space };
  }

  /** The bridge is ovn-controller's: only a driver that writes nothing into it will do. */
  async #findPod(key: string, pod: PodPort, { mac, wanted }: Guest): Promise<FoundPort | NotFound> {
    const found = await this.#pods.find(pod);
    if ("problem" in found) return found;
    if (this.#isOthers(found.ifindex, key))
      return { kind: "pending", problem: `${found.name} is the port of another attachment` };
    if (mac === null) return { kind: "pending", problem: "Open vSwitch's database has no MAC address of it" };
    const port = await this.#claim(
      found,
      this.#drivers.filter(({ kind }) => kind === "ingress"),
    );
    return "problem" in port ? port : { kind: "found", port, mac, space: guestSpace(wanted.netns) };
  }

  /** Where it was found once; null: it was not, or that is not there any more, or another attachment's. */
  #again(key: string): Extract<Lookup, { kind: "found" }> | null {
    const demoted = this.#memory.demoted(key);
    if (demoted === undefined || this.#isOthers(demoted.ifindex, key)) return null;
    const link = this.#lookup.again(demoted);
    const { mac, space } = demoted;
    return link === null ? null : { kind: "found", link, mac, space };
  }

  async #claim(link: HostSideLink, drivers: readonly DatapathDriver[]): Promise<PortRef | NotFound> {
    for (const driver of drivers) {
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
