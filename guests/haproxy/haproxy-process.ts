import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** Processes of haproxy that run with a configuration file, found again after a restart of ours. */
export function findHaproxy(configPath: string): {
  readonly master: number | null;
  readonly all: readonly number[];
} {
  const alike = readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && looksLikeHaproxy(pid, configPath));
  // Anybody can call a process so. Ours are root's, or, as workers that gave root up, children of one that is.
  const all = alike.filter((pid) => isRoots(pid) || (alike.includes(parentOf(pid)) && isRoots(parentOf(pid))));
  const master = all.find((pid) => isRoots(pid) && !all.includes(parentOf(pid)));
  return { master: master ?? null, all };
}

export function runsHaproxy(pid: number, configPath: string): boolean {
  return looksLikeHaproxy(pid, configPath) && isRoots(pid);
}

/** By its arguments; not one that ended and waits for its parent, nor one in a container that only calls itself so. */
function looksLikeHaproxy(pid: number, configPath: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return (
      basename(words[0] ?? "").startsWith("haproxy") &&
      words[words.indexOf("-f") + 1] === configPath &&
      !words.includes("-c") &&
      readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync("/proc/self/ns/pid")
    );
  } catch {
    return false;
  }
}

/** Not the owner of its directory in /proc: that is root for every process that asks not to be dumped. */
function isRoots(pid: number): boolean {
  return /^0\s+0\s+0\s+0$/.test(statusOf(pid, "Uid"));
}

function parentOf(pid: number): number {
  return Number(statusOf(pid, "PPid"));
}

/** Empty: there is no such process any more. */
function statusOf(pid: number, field: string): string {
  try {
    return new RegExp(`^${field}:\\s*(.*)$`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
  } catch {
    return "";
  }
}
