import { existsSync } from "node:fs";
import type { HostSideLink } from "./drivers/driver.ts";
import { type GuestSpace, guestSpace } from "./guest-space.ts";
import { HostLinks, isLinkName, linkInto, linksIn, type ShownLink } from "./kernel/links.ts";
import { hostLink, namespaceId, OWN_NAMESPACE } from "./kernel/sysfs.ts";
import type { DemotedPort } from "./port-memory.ts";
import type { WantedPort } from "./ports/wire.ts";

/** What became of the search for the host-side link of an attachment. `mac`: of the guest; null: it cannot be seen. */
export type Lookup =
  | {
      readonly kind: "found";
      readonly link: HostSideLink;
      readonly mac: string | null;
      readonly space: GuestSpace;
    }
  | NotFound;

export interface NotFound {
  /** As in `FailedPort`. */
  readonly kind: "final" | "pending";
  readonly problem: string;
}

/** What cannot be this attachment's. */
export interface OthersPorts {
  isTaken(ifindex: number): boolean;
  /** Is an interface of this name in the same namespace another attachment's? */
  isNamed(name: string): boolean;
}

/** Links that have no end on the host, by kind; the kernel tells none of a physical one. */
const WITHOUT_HOST_SIDE: Readonly<Record<string, string>> = {
  macvlan: "is a macvlan interface",
  macvtap: "is a macvtap interface",
  ipvlan: "is an ipvlan interface",
  ipvtap: "is an ipvtap interface",
  dummy: "is a dummy interface",
  "": "is a device of its own, such as an SR-IOV VF",
};
const NO_HOST_SIDE = "which has no end on the node: frames of its guest cannot be taken there";

const NOT_MADE = ": it is not made yet, or is a socket, such as a vhost-user port, and cannot be served";

export class PortLookup {
  readonly #hostLinks = new HostLinks();

  /** By name; once KubeVirt has renamed it, any veth pair that is nobody else's. Never rejects for what is in there. */
  async find(wanted: Pick<WantedPort, "netns" | "interface">, others: OthersPorts): Promise<Lookup> {
    const { netns, interface: name } = wanted;
    const space = guestSpace(netns);
    const { id } = space;
    if (id === null) return pending(`its network namespace ${netns} is not there`);
    const named = isLinkName(name) ? await linksIn(netns, name) : ({ kind: "links", links: [] } as const);
    if (named.kind === "unreadable") return pending(`its network namespace cannot be read: ${named.why}`);
    const [own] = named.links;
    const mac = own?.address ?? null;
    if (own !== undefined && isPaired(own)) {
      const link = await this.#hostSide(own, netns, id);
      if (link === null) return pending(`the other end of ${name} is not on the node`);
      if (others.isTaken(link.ifindex)) return pending(`${link.name} is the port of another attachment`);
      return { kind: "found", link, mac, space };
    }
    const pairs = await linksIn(netns, null);
    if (pairs.kind === "unreadable") return pending(`its network namespace cannot be read: ${pairs.why}`);
    const found = await this.#renamed(pairs.links, wanted, id, others);
    if (found.length === 1) return { kind: "found", link: found[0] as HostSideLink, mac, space };
    if (found.length > 1)
      return pending(`${name} was renamed, and may be behind ${found.map((one) => one.name).join(" or ")}`);
    if (own === undefined) return pending(`there is no interface ${name} in its network namespace${NOT_MADE}`);
    const kind = own.linkinfo?.info_kind ?? "";
    return {
      kind: "final",
      problem: `${name} ${WITHOUT_HOST_SIDE[kind] ?? `is of the kind ${kind}`}, ${NO_HOST_SIDE}`,
    };
  }

  /** Where a port is that was found once; null: it is not there any more. */
  again({ link, ifindex }: DemotedPort): HostSideLink | null {
    if (hostLink(link)?.ifindex !== ifindex) return null;
    return { name: link, ifindex, kind: existsSync(`/sys/class/net/${link}/tun_flags`) ? "tun" : "veth" };
  }

  /** By the name that KubeVirt gives; else whatever ends at the host and is nobody else's. */
  async #renamed(
    links: readonly ShownLink[],
    { netns, interface: name }: Pick<WantedPort, "netns" | "interface">,
    id: number,
    others: OthersPorts,
  ): Promise<readonly HostSideLink[]> {
    const given = namesOf(name);
    const free = links.filter(({ ifname }) => ifname !== "eth0" && !others.isNamed(ifname));
    for (const some of [free.filter(({ ifname }) => given.includes(ifname)), free]) {
      const found: HostSideLink[] = [];
      for (const link of some.slice(0, PAIRS_MAX)) {
        const end = await this.#hostSide(link, netns, id);
        if (end !== null && !others.isTaken(end.ifindex)) found.push(end);
      }
      if (found.length > 0) return found;
    }
    return [];
  }

  /** Both ends of a pair must name each other, and the kernel must say that the host's end leads into the namespace. */
  async #hostSide(link: ShownLink, netns: string, namespace: number): Promise<HostSideLink | null> {
    if (link.linkinfo?.info_kind === "tun") return this.#tap(link, namespace);
    const end = this.#hostLinks.byIndex(link.link_index ?? -1);
    if (end === null || end.peerIndex !== link.ifindex || !isLinkName(end.name)) return null;
    const proven = await linkInto(end.name, netns);
    if (proven?.ifindex !== end.ifindex || proven.peerIndex !== link.ifindex) return null;
    // Another namespace may have come under the path meanwhile.
    if (namespaceId(netns) !== namespace) return null;
    return { name: end.name, ifindex: end.ifindex, kind: proven.kind };
  }

  /** A tap's namespace is the node's own: it is the port itself. */
  #tap(link: ShownLink, namespace: number): HostSideLink | null {
    const isHere = namespaceId(OWN_NAMESPACE) === namespace && hostLink(link.ifname)?.ifindex === link.ifindex;
    return isHere && isLinkName(link.ifname) ? { name: link.ifname, ifindex: link.ifindex, kind: "tun" } : null;
  }
}

/** What an interface may be called in a pod: as the plugin named it, or as KubeVirt renames that. */
export function namesOf(name: string): readonly string[] {
  return [name, `${name}-nic`, `${name.replace(/^pod/, "")}-nic`];
}

/** A pod of KubeVirt has a pair for each network. Who makes thousands is not looked at in full. */
const PAIRS_MAX = 64;

function isPaired({ linkinfo }: ShownLink): boolean {
  return linkinfo?.info_kind === "veth" || linkinfo?.info_kind === "tun";
}

function pending(problem: string): NotFound {
  return { kind: "pending", problem };
}
