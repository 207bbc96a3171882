/*
 * guests/kernel/: the kernel's state, and commands that change it
 *
 *   names        of everything that one metadata-net makes
 *   run          commands with limits; sysfs: what needs no command
 *   links        links of the host and of guests' namespaces
 */

import { mkdirSync } from "node:fs";
import { isInterfaceName } from "../../ipam/definition/interface-name.ts";
import { run } from "./run.ts";
import { type HostLink, hostLink, hostLinks } from "./sysfs.ts";

/** One look into somebody's namespace. A pod has a handful of links, of some 700 characters each. */
const LOOKUP_LIMITS = { timeMax: 3_000, outputMax: 1 << 19 };

/** Where ip looks for the names of namespaces. */
const NAMED = "/var/run/netns";

export interface ShownLink {
  readonly ifname: string;
  readonly ifindex: number;
  /** Of the other end, in the namespace where that is. */
  readonly link_index?: number;
  readonly address?: string;
  readonly linkinfo?: { readonly info_kind?: string };
}

/** `unreadable`: what cannot be read in time or within a limit, or is gone. */
export type ShownLinks =
  | { readonly kind: "links"; readonly links: readonly ShownLink[] }
  | { readonly kind: "unreadable"; readonly why: string };

/** Whether the kernel takes it as a link's name, and nft and ip as one word; to ip # starts a comment. */
export function isLinkName(name: string): boolean {
  return isInterfaceName(name) && !/^-|["'\\*$,{}#]/.test(name);
}

/** All pairs, or the link of a name. Names, aliases and numbers are chosen by who has NET_ADMIN in there. */
export async function linksIn(netns: string, name: string | null): Promise<ShownLinks> {
  const which = name === null ? ["type", "veth"] : ["dev", name];
  const ip = ["ip", "-json", "-details", "link", "show", ...which];
  const shown = await run("nsenter", [`--net=${netns}`, ...ip], "", LOOKUP_LIMITS);
  if (shown.code === 0) return { kind: "links", links: readLinks(shown.stdout) };
  if (/does not exist/.test(shown.stderr)) return { kind: "links", links: [] };
  return { kind: "unreadable", why: shown.stderr.trim().slice(0, 300) };
}

/** A link of the host whose other end is known to be in a certain namespace. */
export interface ProvenLink {
  readonly ifindex: number;
  /** Index of the other end in that namespace. */
  readonly peerIndex: number;
  readonly kind: "veth" | "tun" | "";
}

/**
 * In a mount namespace of its own, in which the guest's namespace is the only one that ip knows by a name: $1 is its
 * path, $2 the host's link. The path may be hidden there by what is mounted, so it is opened before.
 */
const PROOF = `exec 3<"$1"
mount -n -t tmpfs -o size=64k tmpfs ${NAMED}
: >${NAMED}/guest
mount -n -c --bind /proc/self/fd/3 ${NAMED}/guest
exec ip -o -details link show dev "$2"`;

/**
 * The host's link of a name, if the kernel says that its other end is in the namespace; null: it does not. Indexes
 * prove nothing: they repeat between namespaces, and who has NET_ADMIN in one chooses them. Throws if it cannot be
 * asked.
 */
export async function linkInto(name: string, netns: string): Promise<ProvenLink | null> {
  mkdirSync(NAMED, { recursive: true, mode: 0o755 });
  const args = ["--mount", "sh", "-ec", PROOF, "sh", netns, name];
  const { code, stdout, stderr } = await run("unshare", args, "", LOOKUP_LIMITS);
  if (code !== 0) {
    if (/does not exist/.test(stderr)) return null;
    throw new Error(`where ${name} leads cannot be told: ${stderr.trim().slice(0, 300)}`);
  }
  const [, ifindex, peerIndex] = /^(\d+): [^\s:]+@if(\d+): /.exec(stdout) ?? [];
  if (ifindex === undefined || !/ link-netns guest(?=\s|$)/.test(stdout)) return null;
  const kind = /\\ +(veth|tun) /.exec(stdout)?.[1] as "veth" | "tun" | undefined;
  return { ifindex: Number(ifindex), peerIndex: Number(peerIndex), kind: kind ?? "" };
}

/** ip's JSON: it writes control characters of a name as they are, and puts a backslash before an apostrophe. */
export function readLinks(text: string): readonly ShownLink[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must go
  const legible = text.replaceAll(/[\0-\x1f]/g, " ").replaceAll("\\'", "'");
  try {
    const links = JSON.parse(legible.trim() || "[]") as Partial<ShownLink>[];
    return links.filter(
      (link): link is ShownLink => typeof link?.ifname === "string" && typeof link.ifindex === "number",
    );
  } catch {
    return [];
  }
}

/** The host's links by index, as last seen: a full node has a thousand, and reading each of them takes a while. */
export class HostLinks {
  readonly #seen = new Map<string, HostLink>();
  readonly #names = new Map<number, string>();

  /** The link that has the index now; null: there is none. */
  byIndex(ifindex: number): (HostLink & { readonly name: string }) | null {
    const known = this.#confirmed(ifindex);
    if (known !== null) return known;
    this.#read(true);
    const fresh = this.#confirmed(ifindex);
    if (fresh !== null) return fresh;
    // A link may have been made anew under its old name.
    this.#read(false);
    return this.#confirmed(ifindex);
  }

  #confirmed(ifindex: number): (HostLink & { readonly name: string }) | null {
    const name = this.#names.get(ifindex);
    const now = name === undefined ? null : hostLink(name);
    return name !== undefined && now?.ifindex === ifindex ? { name, ...now } : null;
  }

  #read(keepKnown: boolean): void {
    const before = new Map(keepKnown ? this.#seen : []);
    this.#seen.clear();
    this.#names.clear();
    for (const name of hostLinks()) {
      const link = before.get(name) ?? hostLink(name);
      if (link === null) continue;
      this.#seen.set(name, link);
      this.#names.set(link.ifindex, name);
    }
  }
}
