import { existsSync } from "node:fs";
import type { WantedAttachment } from "../../listeners/wire.ts";
import { isLinkName } from "./plan.ts";
import { run } from "./run.ts";
import { portOf, portsOf } from "./sysfs.ts";

/** One look into somebody's namespace. A pod has a handful of links, of some 700 characters each. */
const LOOKUP_LIMITS = { timeMax: 3_000, outputMax: 1 << 19 };

/** Where a VM is on a bridge. */
export interface GuestPort {
  readonly port: string;
  readonly ifindex: number;
  /** Of the interface in the VM's namespace when it was attached; null: it was seen too late to be sure. */
  readonly mac: string | null;
}

/** What `ip -json -details link show` says of a link in a namespace. */
export interface NamespaceLink {
  readonly ifname: string;
  readonly ifindex: number;
  readonly link_index?: number;
  readonly address?: string;
  readonly linkinfo?: { readonly info_kind?: string };
}

/** Ports of bridges as they were last seen: a full bridge has a thousand, and reading each of them takes a while. */
export class BridgePorts {
  readonly #seen = new Map<string, ReadonlyMap<string, BridgePort>>();

  list(bridge: string): readonly BridgePort[] {
    const before = this.#seen.get(bridge);
    const now = new Map<string, BridgePort>();
    for (const name of portsOf(bridge) ?? []) {
      const known = before?.get(name) ?? freshPort(bridge, name);
      if (known !== null) now.set(name, known);
    }
    this.#seen.set(bridge, now);
    return [...now.values()];
  }

  /** Has it been right about these? A link may have been made anew under its old name. */
  confirm(bridge: string, ports: readonly GuestPort[]): boolean {
    const right =
      ports.length > 0 && ports.every(({ port, ifindex }) => portOf(bridge, port)?.ifindex === ifindex);
    if (!right) this.#seen.delete(bridge);
    return right;
  }
}

/**
 * The ports of `bridge` behind which an attachment's interface is. Usually one. A pod's interface is renamed when KubeVirt
 * takes it over: then every pair in the namespace that ends at the bridge counts, but those in `taken`. Empty: none is
 * there, or there is no such namespace (any more).
 */
export async function findGuestPorts(
  attachment: WantedAttachment,
  bridge: string,
  known: { readonly bridgePorts: BridgePorts; readonly taken: ReadonlySet<string> },
): Promise<readonly GuestPort[]> {
  if (!attachment.netns.startsWith("/") || !existsSync(attachment.netns)) return [];
  const named = isLinkName(attachment.interface) ? await linksIn(attachment.netns, attachment.interface) : [];
  const { bridgePorts, taken } = known;
  const confirmed = (links: readonly NamespaceLink[]) => {
    const choose = () => choosePorts({ links, attachment, taken, ports: bridgePorts.list(bridge) });
    const chosen = choose();
    return bridgePorts.confirm(bridge, chosen) ? chosen : choose();
  };
  const own = confirmed(named);
  return own.length > 0 ? own : confirmed([...named, ...(await linksIn(attachment.netns, null))]);
}

/**
 * The link of a name in a namespace, or all of its pairs. Names, aliases and the number of links are chosen by whoever
 * has NET_ADMIN in there: what cannot be read in time, within a limit, or at all, is not there.
 */
async function linksIn(netns: string, name: string | null): Promise<readonly NamespaceLink[]> {
  const which = name === null ? ["type", "veth"] : ["dev", name];
  const ip = ["ip", "-json", "-details", "link", "show", ...which];
  const shown = await run("nsenter", [`--net=${netns}`, ...ip], "", LOOKUP_LIMITS);
  return shown.code === 0 ? readLinks(shown.stdout) : [];
}

/** ip's JSON: it writes control characters of a name as they are, and puts a backslash before an apostrophe. */
export function readLinks(text: string): readonly NamespaceLink[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must go
  const legible = text.replaceAll(/[\0-\x1f]/g, " ").replaceAll("\\'", "'");
  try {
    const links = JSON.parse(legible.trim() || "[]") as Partial<NamespaceLink>[];
    return links.filter(
      (link): link is NamespaceLink => typeof link?.ifname === "string" && typeof link.ifindex === "number",
    );
  } catch {
    return [];
  }
}

export interface BridgePort {
  readonly name: string;
  readonly ifindex: number;
  readonly peerIndex: number;
}

/** The choice behind `findGuestPorts`, without looking. Both ends of a pair must name each other. */
export function choosePorts(choice: {
  readonly links: readonly NamespaceLink[];
  readonly attachment: Pick<WantedAttachment, "interface">;
  readonly ports: readonly BridgePort[];
  readonly taken: ReadonlySet<string>;
}): readonly GuestPort[] {
  const { links, attachment, ports, taken } = choice;
  const portFor = (link: NamespaceLink) =>
    ports.find(
      ({ name, ifindex, peerIndex }) =>
        isLinkName(name) &&
        // A tap's namespace is the bridge's own: it is the port itself.
        ((link.link_index === ifindex && link.ifindex === peerIndex) ||
          (link.ifname === name && link.ifindex === ifindex && link.linkinfo?.info_kind === "tun")),
    );
  const named = links.find(({ ifname }) => ifname === attachment.interface);
  const own = named && portFor(named);
  if (named && own) return [{ port: own.name, ifindex: own.ifindex, mac: named.address ?? null }];
  return links
    .filter(({ linkinfo }) => linkinfo?.info_kind === "veth")
    .flatMap((link) => portFor(link) ?? [])
    .filter(({ name }) => !taken.has(name))
    .map(({ name, ifindex }) => ({ port: name, ifindex, mac: null }));
}

function freshPort(bridge: string, name: string): BridgePort | null {
  const found = portOf(bridge, name);
  return found === null ? null : { name, ...found };
}
