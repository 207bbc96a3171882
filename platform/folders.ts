import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates a folder and its parents for the owner alone, if they are missing. Throws an Error with the folder, the cause
 * and the flag for another one.
 */
export function ensureFolder(path: string, flag: "state" | "spool"): void {
  try {
    makeMissing(path);
    accessSync(path, constants.W_OK);
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `${flag} folder ${path} cannot be used: ${message}; make it writable, or give another --${flag}`,
    );
  }
}

/** One by one: Node's recursive mkdir reports ENOENT for a read-only file system. */
function makeMissing(path: string): void {
  if (existsSync(path)) return;
  makeMissing(dirname(path));
  mkdirSync(path, { recursive: true, mode: 0o700 });
}
