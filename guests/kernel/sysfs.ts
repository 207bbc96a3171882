import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { basename } from "node:path";

/** What the kernel says of the host's links, without a process for each question. */

const LINKS = "/sys/class/net";
const NAMESPACES = "/run/netns";

export interface HostLink {
  readonly ifindex: number;
  /** Index of the other end, in the namespace where that is. Its own index: none. */
  readonly peerIndex: number;
}

/** null: there is none of that name. */
export function hostLink(name: string): HostLink | null {
  const read = (file: string) => Number(readFileSync(`${LINKS}/${name}/${file}`, "utf8"));
  try {
    return { ifindex: read("ifindex"), peerIndex: read("iflink") };
  } catch {
    return null;
  }
}

export function hostLinks(): readonly string[] {
  return readdirSync(LINKS);
}

/** What a link is plugged into; null: nothing. */
export function masterOf(link: string): string | null {
  try {
    return basename(readlinkSync(`${LINKS}/${link}/master`));
  } catch {
    return null;
  }
}

/** What tells a network namespace from all others, now; null: there is none under the path. */
export function namespaceId(path: string): number | null {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    // A file that is left when the mount has gone is in the file system of its directory.
    return found?.dev === namespaceDevice() ? found.ino : null;
  } catch {
    return null;
  }
}

export function namespacePath(name: string): string {
  return `${NAMESPACES}/${name}`;
}

export const OWN_NAMESPACE = "/proc/self/ns/net";

function namespaceDevice(): number {
  return statSync(OWN_NAMESPACE).dev;
}
