import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { basename } from "node:path";

/** What the kernel says of the host's links, without a process for each question. */

const LINKS = "/sys/class/net";
const NAMESPACES = "/run/netns";

export interface HostLink {
  readonly ifindex: number;
  /** Index of the other end, in the namespace where that is. Its own index: none. */
  readonly peerIndex: number;
  readonly mtu: number;
  readonly mac: string;
  readonly up: boolean;
  /** Name of the bridge it is a port of; null: none. */
  readonly master: string | null;
}

/** null: there is none of that name. */
export function hostLink(name: string): HostLink | null {
  const read = (file: string) => readFileSync(`${LINKS}/${name}/${file}`, "utf8").trim();
  try {
    return {
      ifindex: Number(read("ifindex")),
      peerIndex: Number(read("iflink")),
      mtu: Number(read("mtu")),
      mac: read("address"),
      up: (Number(read("flags")) & 1) === 1,
      master: linkTarget(`${LINKS}/${name}/master`),
    };
  } catch {
    return null;
  }
}

/** Index and peer's index of a bridge's port; null: it is none. */
export function portOf(bridge: string, port: string): { ifindex: number; peerIndex: number } | null {
  try {
    if (linkTarget(`${LINKS}/${port}/master`) !== bridge) return null;
    return {
      ifindex: Number(readFileSync(`${LINKS}/${port}/ifindex`, "utf8")),
      peerIndex: Number(readFileSync(`${LINKS}/${port}/iflink`, "utf8")),
    };
  } catch {
    return null;
  }
}

/** Names of a bridge's ports; null: there is no such bridge. */
export function portsOf(bridge: string): readonly string[] | null {
  try {
    return readdirSync(`${LINKS}/${bridge}/brif`);
  } catch {
    return null;
  }
}

/** VLAN that a new port of the bridge gets by itself; 0: none. */
export function defaultVlanOf(bridge: string): number {
  try {
    return Number(readFileSync(`${LINKS}/${bridge}/bridge/default_pvid`, "utf8"));
  } catch {
    return 0;
  }
}

export function hostLinks(): readonly string[] {
  return readdirSync(LINKS);
}

/** Is there a network namespace under the name, not only the file of one? */
export function hasNamespace(name: string): boolean {
  try {
    return statSync(`${NAMESPACES}/${name}`).dev !== statSync(NAMESPACES).dev;
  } catch {
    return false;
  }
}

/** Names in /run/netns, also of files that are no namespaces any more. */
export function namespaceNames(): readonly string[] {
  try {
    return readdirSync(NAMESPACES);
  } catch {
    return [];
  }
}

export function namespacePath(name: string): string {
  return `${NAMESPACES}/${name}`;
}

function linkTarget(path: string): string | null {
  try {
    return basename(readlinkSync(path));
  } catch {
    return null;
  }
}
