import { mkdirSync, readFileSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { replaceDurably } from "./files.ts";

/** The plugin binary reads at most so much of its file. */
const BOOT_ID_CHARS_MAX = 63;
/** Of statfs(2): file systems in memory. */
const IN_MEMORY = [0x01021994, 0x858458f6];

/** What the kernel tells of the present boot: the first line of a file. Throws an Error that names the file and the remedy. */
export function readKernelBootId(path: string): string {
  const remedy =
    "give --boot-id-file a file whose first line is this machine's boot ID, as that of /proc/sys/kernel/random/boot_id is";
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new Error(`bootIdFile ${path} cannot be read: ${(error as Error).message}; ${remedy}`);
  }
  const id = firstLine(text);
  if (id !== null) return id;
  const line = text.split("\n", 1)[0] as string;
  throw new Error(`bootIdFile ${path} begins with ${JSON.stringify(line)}, which is no boot ID; ${remedy}`);
}

/**
 * The boot that this daemon serves, in a file beside its socket for the plugin binary: whoever reaches the socket reads the same.
 * A file in memory is of this boot, whatever a process sees as the kernel's boot ID; one on a disk only if it is `kernelBootId`.
 * See docs/decisions/0081. Throws an Error that names the file and the remedy.
 */
export function publishBootId(path: string, kernelBootId: string): string {
  const directory = dirname(path);
  try {
    mkdirSync(directory, { recursive: true, mode: 0o755 });
    const published = read(path);
    if (published === kernelBootId) return published;
    if (published !== null && IN_MEMORY.includes(statfsSync(directory).type)) return published;
    replaceDurably(path, Buffer.from(`${kernelBootId}\n`));
    return kernelBootId;
  } catch (error) {
    throw new Error(
      `${path} cannot be read or written: ${(error as Error).message}; the plugin binary reads there which boot this is; let the daemon write to ${directory}, or give another --socket`,
    );
  }
}

/** null: there is none, or what is there is no boot ID. */
function read(path: string): string | null {
  try {
    return firstLine(readFileSync(path, "utf8"));
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return null;
    throw error;
  }
}

function firstLine(text: string): string | null {
  const line = (text.split("\n", 1)[0] as string).slice(0, BOOT_ID_CHARS_MAX);
  return /^[0-9a-zA-Z-]+$/.test(line) ? line : null;
}
