import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { directoryVersion, LeaseProblem } from "./lease-files.ts";

/** What systemd mounts over directories hidden from a unit: PrivateTmp=, and ProtectHome= or InaccessiblePaths=. */
const SANDBOX_ROOT = /\/systemd-private-[^/]+\/tmp$|\/systemd\/inaccessible\//;

const DROP_IN = "let the daemon see the directory with a drop-in for its unit (docs/switching.md) and restart it";

export interface HostLocalDirs {
  /** Where no `dataDir` is given. */
  readonly standard: string;
  /** The only directories that are read; null: any that a configuration names. */
  readonly allowed: readonly string[] | null;
}

/** host-local's directory for a network on this node. Throws RefusalError when its `dataDir` has no meaning here. */
export function dataDirectory(
  { network, dataDir }: { readonly network: string; readonly dataDir: string | undefined },
  { standard, allowed }: HostLocalDirs,
  sight: MachineSight,
  readBefore: (directory: string) => boolean,
): string {
  if (dataDir === undefined) return join(standard, network);
  if (allowed !== null && !allowed.includes(dataDir)) {
    const remedy = `this daemon reads host-local's addresses in ${allowed.join(", ")} only; if containers of this network still have some, let the daemon see the directory and name it in the setting hostLocalDirs, else remove the key`;
    throw new RefusalError(refuse("CONFIG_INVALID", { key: "ipam.dataDir", value: dataDir, remedy }));
  }
  // host-local's own default, given explicitly, need not exist before host-local has run.
  if (dataDir !== standard) refuseHidden({ network, dataDir }, sight, readBefore);
  return join(dataDir, network);
}

/**
 * Throws RefusalError when the `dataDir` of a configuration is hidden from this process, or may be: what is missing
 * here is no evidence then that no container has an address in it. `readBefore`: everything in it is already recorded.
 */
export function refuseHidden(
  { network, dataDir }: { readonly network: string; readonly dataDir: string },
  sight: MachineSight,
  readBefore: (directory: string) => boolean,
): void {
  const directory = join(dataDir, network);
  try {
    if (directoryVersion(directory) !== null) return;
    const exists = sight.exists(directory);
    if (exists === false) return;
    const hiddenBy = hidingMount(dataDir, sight.mounts());
    if (exists === null) {
      if (readBefore(directory)) return;
      if (hiddenBy === null && directoryVersion(dataDir) !== null) return;
    }
    throw new RefusalError(refuseUnseen(network, dataDir, { hiddenBy, exists }));
  } catch (error) {
    if (error instanceof LeaseProblem) throw new RefusalError(unreadable(network, error));
    throw error;
  }
}

function refuseUnseen(
  network: string,
  path: string,
  { hiddenBy, exists }: { readonly hiddenBy: string | null; readonly exists: true | null },
): Refusal {
  const problem =
    hiddenBy !== null
      ? `the daemon's service unit hides ${hiddenBy} from it (PrivateTmp=, ProtectHome=)`
      : exists
        ? "it is on this machine, but hidden from the daemon"
        : "the daemon sees no such directory, and cannot tell whether it is hidden from it";
  const visible = hiddenBy === null ? "let the daemon see the directory" : DROP_IN;
  const otherwise =
    exists || hiddenBy !== null
      ? "remove the key ipam.dataDir"
      : "create the directory, empty, or remove the key ipam.dataDir";
  const remedy = `${visible}; if no container has an address of host-local's there, ${otherwise}`;
  return refuse("HOST_LOCAL_UNREADABLE", { network, path, problem, remedy });
}

/** A directory or file that cannot be read may hold any container's address. */
export function unreadable(network: string, { path, message: problem }: LeaseProblem): Refusal {
  const remedy = `make it readable for the daemon; or, if no container has an address of host-local's any more, remove it (holdfast import --dry-run --network ${network} shows what it holds)`;
  return refuse("HOST_LOCAL_UNREADABLE", { network, path, problem, remedy });
}

/** The mount point that hides the machine's own content at `path`; null: none does. `mountinfo` as in proc(5). */
export function hidingMount(path: string, mountinfo: string): string | null {
  let over = { root: "", point: "" };
  for (const line of mountinfo.split("\n")) {
    const [, , , root = "", escaped = ""] = line.split(" ");
    const point = escaped.replace(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    const covers = point !== "" && `${path}/`.startsWith(point === "/" ? point : `${point}/`);
    // Of two mounts at one place, the later one is visible.
    if (covers && point.length >= over.point.length) over = { root, point };
  }
  return SANDBOX_ROOT.test(over.root) ? over.point : null;
}

export class MachineSight {
  /** Whether something is at a path, whatever hides it from this process; null: it cannot be told. */
  readonly exists: (path: string) => boolean | null;
  #mountinfo: string | null = null;

  constructor(exists: (path: string) => boolean | null) {
    this.exists = exists;
  }

  /** The mounts of this process (proc(5)). Read once: a sandbox is complete when it starts. Throws LeaseProblem. */
  mounts(): string {
    try {
      this.#mountinfo ??= readFileSync("/proc/self/mountinfo", "utf8");
      return this.#mountinfo;
    } catch (error) {
      throw new LeaseProblem("/proc/self/mountinfo", (error as Error).message);
    }
  }
}
