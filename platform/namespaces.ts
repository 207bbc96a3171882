import { readdirSync, readFileSync, statSync } from "node:fs";
import { BoundedMap } from "./bounded-map.ts";
import type { Clock } from "./time.ts";

/** The network namespace of an attachment, as seen when the attachment was made. */
export interface NamespaceIdentity {
  readonly path: string;
  /** `<device>:<inode>` as the plugin binary saw it; "" when there was nothing at the path. */
  readonly id: string;
  /** The daemon itself has seen the same namespace there. Only then can it later tell that it is gone. */
  readonly witnessed: boolean;
}

/**
 * What is known of an attachment's network namespace now: alive — the same namespace is at its path; elsewhere — it is
 * not, and a namespace of its number (after a reboot another one) is elsewhere on this node; gone — this daemon saw it
 * there once, and it is nowhere any more; never-there — not even the plugin binary saw one, and there is none now;
 * unknown — this daemon cannot tell, so it counts as alive.
 */
export type NamespaceState = "alive" | "elsewhere" | "gone" | "never-there" | "unknown";

export interface NamespaceSight {
  readonly namespaceIdAt: (path: string) => string | null;
  readonly namespacesInUse: () => ReadonlySet<string>;
}

/** Looks for processes and mounts are no more frequent, ms: one takes some milliseconds for each thousand processes. */
const LOOK_AGE_MS_MAX = 1_000;
/** Remembered namespaces: more than any node has containers. */
const REMEMBERED_MAX = 20_000;

/**
 * The network namespaces of attachments. A path may go while its namespace lives: `/proc/PID/ns/net` with its process,
 * a bind mount with its unmount. Gone is a namespace that is at no path of an attachment, in no process and in no mount
 * that this daemon sees; its number may then be that of another namespace, so what was seen to be gone stays gone. See
 * docs/decisions/0059.
 */
export class Namespaces {
  readonly #sight: NamespaceSight;
  readonly #clock: Clock;
  /** By the kernel's number: the path at which the plugin binary saw it last. */
  readonly #latestPath = new BoundedMap<string, string>(REMEMBERED_MAX);
  readonly #gone = new BoundedMap<string, true>(REMEMBERED_MAX);
  #inUse: ReadonlySet<string> = new Set();
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(sight: NamespaceSight, clock: Clock) {
    this.#sight = sight;
    this.#clock = clock;
  }

  /** Records it, and whether the daemon itself can see it (it may run with another view of the file system). */
  identify(path: string, idSeenByShim: string): NamespaceIdentity {
    const witnessed = idSeenByShim !== "" && this.#sight.namespaceIdAt(path) === idSeenByShim;
    if (witnessed) this.#latestPath.set(idSeenByShim, path);
    return { path, id: idSeenByShim, witnessed };
  }

  stateOf({ path, id, witnessed }: NamespaceIdentity): NamespaceState {
    const now = this.#sight.namespaceIdAt(path);
    if (now === null) return "unknown";
    if (id === "") return now === "" ? "never-there" : "unknown";
    const key = `${id} ${path}`;
    if (now === id) {
      this.#gone.delete(key);
      this.#latestPath.set(id, path);
      return "alive";
    }
    if (!witnessed) return "unknown";
    if (!this.#gone.has(key)) {
      if (this.#isElsewhere(id, path)) return "elsewhere";
      this.#gone.set(key, true);
    }
    return "gone";
  }

  /** A namespace that a later request brought at another path is that container's, whose number it may have got. */
  #isElsewhere(id: string, path: string): boolean {
    const latest = this.#latestPath.get(id) ?? path;
    if (latest !== path && this.#sight.namespaceIdAt(latest) === id) return false;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#lookedMs > LOOK_AGE_MS_MAX) {
      this.#inUse = this.#sight.namespacesInUse();
      this.#lookedMs = nowMs;
    }
    return this.#inUse.has(id);
  }
}

/** `<device>:<inode>`, as the kernel tells it; "" when there is nothing at the path; null when it cannot be told. */
export function namespaceIdAt(path: string): string | null {
  if (path === "") return "";
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found ? `${found.dev}:${found.ino}` : "";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOTDIR" ? "" : null;
  }
}

/**
 * The network namespaces of all processes and mounts that this process sees: the machine's with the shipped unit, its
 * own pod's and those in /run/netns with the DaemonSet. One that may not be read is left out.
 */
export function namespacesInUse(proc = "/proc"): ReadonlySet<string> {
  const inUse = new Set<string>();
  for (const name of readdirSync(proc)) {
    const id = /^[0-9]+$/.test(name) ? namespaceIdAt(`${proc}/${name}/ns/net`) : "";
    if (id) inUse.add(id);
  }
  // `123 45 0:4 net:[4026532186] /run/netns/blue …`
  for (const [, major, minor, inode] of readFileSync(`${proc}/self/mountinfo`, "utf8").matchAll(
    /^\d+ \d+ (\d+):(\d+) net:\[(\d+)\] /gm,
  ))
    inUse.add(`${(Number(major) << 8) | Number(minor)}:${inode}`);
  return inUse;
}
