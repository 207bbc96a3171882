import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** Processes of haproxy that run with a configuration file, found again after a restart of ours. */
export function findHaproxy(configPath: string): {
  readonly master: number | null;
  readonly all: readonly number[];
} {
  const all = readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && runsHaproxy(pid, configPath));
  const master = all.find((pid) => !all.includes(parentOf(pid)));
  return { master: master ?? null, all };
}

/**
 * Is the process there, haproxy, and with our configuration? A process that has ended and waits for its parent is not, nor
 * is one in somebody's container that only calls itself so.
 */
export function runsHaproxy(pid: number, configPath: string): boolean {
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

function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
