import { existsSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Diagnosis, NodeStatus } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";
import { loadDaemonSettings } from "../../daemon/settings.ts";
import { networkFilesystemName } from "../../store/journal/files/network-filesystem.ts";
import { VERSION } from "../../version.ts";
import { AS_ROOT, run } from "./run.ts";

export type DaemonAnswer =
  | { readonly socket: string; readonly status: NodeStatus }
  | { readonly socket: string; readonly status: null; readonly problem: string; readonly fix: string };

/** The write-ahead log alone takes 64 MB, and a rebuild keeps a second database. */
const FREE_BYTES_MIN = 256 * 1024 * 1024;
const MIB = 1024 * 1024;

export function examineDaemon(daemon: DaemonAnswer): Diagnosis[] {
  const { ok, warning, failed } = part("daemon");
  if (daemon.status === null) return failed(daemon.problem, daemon.fix);
  const { version, notReady, node, mode } = daemon.status;
  const isPod = mode === "kubernetes";
  if (version !== VERSION)
    return warning(
      `version ${version} runs, and this command is of version ${VERSION}`,
      isPod
        ? "use the command of that release, which the daemon's pod has, or give the DaemonSet the image of this one"
        : "systemctl restart holdfast: containers keep their addresses, and requests wait meanwhile",
    );
  if (notReady !== null)
    return failed(
      `it answers, and gives no address now: ${notReady}`,
      `holdfast check, and the daemon's log (${isPod ? "kubectl logs of its pod" : "journalctl -u holdfast"}), say what to do`,
    );
  const where = isPod ? "in a cluster" : "without Kubernetes";
  return ok(`version ${version} serves ${daemon.socket}, node ${node}, ${where}`);
}

/** Nothing where systemd does not run it: in a cluster the daemon is a pod. */
export async function examineUnit(root: string, { status }: DaemonAnswer): Promise<Diagnosis[]> {
  const { ok, warning } = part("start at boot");
  if (!existsSync(join(root, "run/systemd/system")) || status?.mode === "kubernetes") return [];
  const enabled = (await run("systemctl", ["is-enabled", "holdfast.service"])).stdout.trim();
  if (enabled === "enabled") return ok("holdfast.service is enabled");
  if (enabled === "" || enabled === "not-found")
    return warning(
      "there is no unit holdfast.service",
      "install the package or run make install; or start holdfast daemon before the container runtime yourself",
    );
  return warning(
    `holdfast.service is ${enabled}: after a reboot containers start without addresses`,
    "systemctl enable holdfast",
  );
}

export function examineStateDirectory(root: string): Diagnosis[] {
  const { ok, failed, unknown } = part("state directory");
  let directory: string;
  try {
    directory = loadDaemonSettings({}, process.env).state;
  } catch (error) {
    return failed((error as Error).message, "correct the setting; holdfast daemon --help lists them");
  }
  const path = join(root, directory);
  try {
    const { type, bavail, bsize } = statfsSync(nearest(path));
    const network = networkFilesystemName(type);
    if (network !== null)
      return failed(
        `${directory} is on ${network}, where SQLite cannot lock`,
        "mount a local file system there, or set state in /etc/holdfast/daemon.yaml to a local directory",
      );
    const free = bavail * bsize;
    if (free < FREE_BYTES_MIN)
      return failed(
        `${directory} has ${Math.floor(free / MIB)} MiB free`,
        `make room: ${FREE_BYTES_MIN / MIB} MiB are needed for the database and its log`,
      );
    const there = existsSync(path) ? "is on a local file system" : "does not exist yet; its file system is local";
    return ok(`${directory} ${there}, ${Math.floor(free / MIB)} MiB free`);
  } catch (error) {
    return unknown(`${directory}: ${(error as Error).message}`, AS_ROOT);
  }
}

/** The path, or the nearest directory above it that exists. */
function nearest(path: string): string {
  return statSync(path, { throwIfNoEntry: false }) === undefined ? nearest(join(path, "..")) : path;
}
