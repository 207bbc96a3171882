import { existsSync } from "node:fs";
import type { WantedAttachment } from "../../daemon/listener-wire.ts";
import { isLinkName } from "./plan.ts";
import { run } from "./run.ts";
import { portOf, portsOf } from "./sysfs.ts";

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
  const shown = await run("nsenter", [
    `--net=${attachment.netns}`,
    "ip",
    "-json",
    "-details",
    "link",
    "show",
  ]);
  if (shown.code !== 0) return [];
  const links = JSON.parse(shown.stdout || "[]") as NamespaceLink[];
  const { bridgePorts, taken } = known;
  const choose = () => choosePorts({ links, attachment, taken, ports: bridgePorts.list(bridge) });
  const chosen = choose();
  return bridgePorts.confirm(bridge, chosen) ? chosen : choose();
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
