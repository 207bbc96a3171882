/*
 * metadata/net/kernel/: the kernel's state, and commands that change it
 *
 *   names        of everything that one metadata-net makes
 *   run          commands with limits; sysfs: what needs no command
 *   links        links of the host and of guests' namespaces
 */

import { isInterfaceName } from "../../../ipam/definition/interface-name.ts";
import { run } from "./run.ts";
import { type HostLink, hostLink, hostLinks } from "./sysfs.ts";

/** One look into somebody's namespace. A pod has a handful of links, of some 700 characters each. */
const LOOKUP_LIMITS = { timeMax: 3_000, outputMax: 1 << 19 };

/** What `ip -json -details link show` says of a link. */
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

/**
 * Whether the kernel accepts it as the name of a link, and nft and ip as one word. ip treats # as the start of a
 * comment.
 */
export function isLinkName(name: string): boolean {
  return isInterfaceName(name) && !/^-|["'\\*$,{}#]/.test(name);
}

/**
 * The link of a name in a namespace, or all of its pairs. Names, aliases and the number of links are chosen by whoever
 * has NET_ADMIN in there.
 */
export async function linksIn(netns: string, name: string | null): Promise<ShownLinks> {
  const which = name === null ? ["type", "veth"] : ["dev", name];
  const ip = ["ip", "-json", "-details", "link", "show", ...which];
  const shown = await run("nsenter", [`--net=${netns}`, ...ip], "", LOOKUP_LIMITS);
  if (shown.code === 0) return { kind: "links", links: readLinks(shown.stdout) };
  if (/does not exist/.test(shown.stderr)) return { kind: "links", links: [] };
  return { kind: "unreadable", why: shown.stderr.trim().slice(0, 300) };
}

export interface HostEnd {
  readonly ifindex: number;
  readonly kind: "veth" | "tun" | "";
  /** Name in /var/run/netns of the namespace of the other end; null: it has none there. */
  readonly leadsTo: string | null;
}

/** A link of the host; null: there is none of that name. Only ip's text names the namespace, its JSON has a number. */
export async function hostEnd(name: string): Promise<HostEnd | null> {
  const { code, stdout } = await run("ip", ["-o", "-details", "link", "show", "dev", name]);
  const index = /^(\d+): /.exec(stdout)?.[1];
  if (code !== 0 || index === undefined) return null;
  const kind = /\\ +(veth|tun) /.exec(stdout)?.[1] as "veth" | "tun" | undefined;
  const leadsTo = / link-netns (\S+)/.exec(stdout)?.[1] ?? null;
  return { ifindex: Number(index), kind: kind ?? "", leadsTo };
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
