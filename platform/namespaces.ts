import { statSync } from "node:fs";

/** The network namespace of an attachment, as seen when the attachment was made. */
export interface NamespaceIdentity {
  readonly path: string;
  /** `<device>:<inode>` as the plugin binary saw it; "" when there was nothing at the path. */
  readonly id: string;
  /** The daemon itself has seen the same namespace there. Only then can it later tell that it is gone. */
  readonly witnessed: boolean;
}

/**
 * What is known of an attachment's network namespace now: alive — the same namespace is at its path; gone — this daemon
 * saw it there once, and it is not there any more; never-there — not even the plugin binary saw one, and there is none
 * now; unknown — this daemon cannot tell, so it counts as alive.
 */
export type NamespaceState = "alive" | "gone" | "never-there" | "unknown";

/** What sees namespaces; see namespaceIdAt. */
type NamespaceIdAt = (path: string) => string | null;

/** Records a namespace, and whether the daemon itself can see it (it may run with another view of the file system). */
export function identifyNamespace(
  idAt: NamespaceIdAt,
  path: string,
  idSeenByShim: string,
): NamespaceIdentity {
  return { path, id: idSeenByShim, witnessed: idSeenByShim !== "" && idAt(path) === idSeenByShim };
}

export function namespaceState(idAt: NamespaceIdAt, netns: NamespaceIdentity): NamespaceState {
  const now = idAt(netns.path);
  if (now === null) return "unknown";
  if (netns.id === "") return now === "" ? "never-there" : "unknown";
  if (now === netns.id) return "alive";
  return netns.witnessed ? "gone" : "unknown";
}

/**
 * `<device>:<inode>`, the identity of a namespace in the kernel; "" when there is nothing at the path; null when it
 * cannot be told.
 */
export function namespaceIdAt(path: string): string | null {
  if (path === "") return "";
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found ? `${found.dev}:${found.ino}` : "";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOTDIR" ? "" : null;
  }
}
