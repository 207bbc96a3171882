import { mkdirSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { readBounded, replaceDurably } from "./files.ts";

/** The plugin binary reads at most so much of its file. */
const BOOT_ID_CHARS_MAX = 63;
/** Of a file that begins with one. */
const BOOT_FILE_BYTES_MAX = 4_096;
/** Of statfs(2): file systems in memory. */
const IN_MEMORY = [0x01021994, 0x858458f6];

/** The kernel's present boot: the first line of a file. Throws an Error that names the file and the remedy. */
export function readKernelBootId(path: string): string {
  const remedy =
    "give --boot-id-file a file whose first line is this machine's boot ID, as that of /proc/sys/kernel/random/boot_id is";
  let text: string;
  try {
    text = readBounded(path, BOOT_FILE_BYTES_MAX).toString("utf8");
  } catch (error) {
    throw new Error(`bootIdFile ${path} cannot be read: ${(error as Error).message}; ${remedy}`);
  }
  const id = firstLine(text);
  if (id !== null) return id;
  const line = text.split("\n", 1)[0] as string;
  throw new Error(`bootIdFile ${path} begins with ${JSON.stringify(line)}, which is no boot ID; ${remedy}`);
}

/** Where the daemon says which boot it serves: whoever reaches its socket reads the same. See docs/decisions/0081. */
export function bootFileOf(socket: string): string {
  return `${socket}.boot`;
}

/**
 * The boot that a daemon serves. What is in memory is of this boot, whatever a process sees as the kernel's boot ID;
 * what is on a disk counts only if it is `kernelBootId`. Throws an Error that names the file and the remedy.
 */
export function presentBootId(path: string, kernelBootId: string): string {
  try {
    const published = read(path);
    if (published === null) return kernelBootId;
    return IN_MEMORY.includes(statfsSync(dirname(path)).type) ? published : kernelBootId;
  } catch (error) {
    throw unusable(path, error);
  }
}

/** For the plugin binary, by the one daemon that serves there. Throws an Error that names the file and the remedy. */
export function publishBootId(path: string, bootId: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    if (read(path) !== bootId) replaceDurably(path, Buffer.from(`${bootId}\n`));
  } catch (error) {
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): Error {
  return new Error(
    `${path} cannot be read or written: ${(error as Error).message}; the plugin binary reads there which boot this is; let the daemon write to ${dirname(path)}, or give another --socket`,
  );
}

/** null: there is none, or what is there is no boot ID. */
function read(path: string): string | null {
  try {
    return firstLine(readBounded(path, BOOT_FILE_BYTES_MAX).toString("utf8"));
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return null;
    throw error;
  }
}

function firstLine(text: string): string | null {
  const line = (text.split("\n", 1)[0] as string).slice(0, BOOT_ID_CHARS_MAX);
  return /^[0-9a-zA-Z-]+$/.test(line) ? line : null;
}
