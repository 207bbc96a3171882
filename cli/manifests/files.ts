import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { CommandError } from "../failure.ts";
import { formatBytes } from "../human.ts";

export interface ManifestFile {
  /** In messages. */
  readonly name: string;
  read(): Promise<string>;
}

/** Of one file, which is parsed as a whole: some 400,000 claims. */
const MANIFEST_BYTES_MAX = 128 << 20;
const STDIN = "-";
const BOOT_FILES = ["user-data", "vendor-data", "meta-data", "authorized_keys"];
const ENDINGS = /\.(ya?ml|json)$/;

/** In the order of `-f`; a directory means its YAML and JSON files by name. Throws CommandError. */
export function manifestFiles(path: string): ManifestFile[] {
  if (path === STDIN) return [{ name: "standard input", read: readStdin }];
  try {
    if (!statSync(path).isDirectory()) return [fileAt(path)];
    const names = readdirSync(path).filter((name) => ENDINGS.test(name));
    if (names.length === 0) throw noManifests(path);
    return names.sort().map((name) => fileAt(join(path, name)));
  } catch (error) {
    throw error instanceof CommandError ? error : unreadable(path, error);
  }
}

/** Somebody may mean the files as content. */
function noManifests(path: string): CommandError {
  const message = `${path} has no files that end in .yaml, .yml or .json`;
  if (!readdirSync(path).some((name) => BOOT_FILES.includes(name))) return new CommandError(message);
  const hint = `to make a Secret of its files: holdfast apply secret <name> --from-file ${path}`;
  return new CommandError(message, { hint });
}

function fileAt(path: string): ManifestFile {
  return {
    name: path,
    read: async () => {
      try {
        refuseLarge(path, statSync(path).size);
        return readFileSync(path, "utf8");
      } catch (error) {
        throw error instanceof CommandError ? error : unreadable(path, error);
      }
    },
  };
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin) {
    bytes += (chunk as Buffer).length;
    refuseLarge("standard input", bytes);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function refuseLarge(name: string, bytes: number): void {
  if (bytes <= MANIFEST_BYTES_MAX) return;
  const hint = "split it into several files: -f may be given again, and names a directory of them too";
  throw new CommandError(`${name} is larger than ${formatBytes(MANIFEST_BYTES_MAX)}`, { hint });
}

function unreadable(path: string, error: unknown): CommandError {
  const { code, message } = error as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "no such file or directory" : code === "EACCES" ? "permission denied" : message;
  return new CommandError(`${path} cannot be read: ${why}`);
}
