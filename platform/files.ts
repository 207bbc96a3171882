import { Buffer } from "node:buffer";
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/** Creates a directory and its parents for the owner alone. Throws an Error with it, the cause and the flag to use. */
export function ensureDirectory(path: string, flag: "state" | "spool"): void {
  try {
    makeMissing(path);
    accessSync(path, constants.R_OK | constants.W_OK);
  } catch (error) {
    const { message } = error as Error;
    throw new Error(
      `${flag} directory ${path} cannot be used: ${message}; make it readable and writable, or give another --${flag}`,
    );
  }
}

/** One by one: Node's recursive mkdir reports ENOENT for a read-only file system. */
function makeMissing(path: string): void {
  if (existsSync(path)) return;
  makeMissing(dirname(path));
  mkdirSync(path, { recursive: true, mode: 0o700 });
}

/** Of a file of settings, credentials or names, bytes: far more than anybody writes into one. */
export const SMALL_FILE_BYTES_MAX = 1 << 20;

/** Somebody else's file: `bytesMax` at most, whatever it says. Throws an Error with file and limit, or the system's. */
export function readBounded(path: string, bytesMax: number): Buffer {
  const file = openSync(path, "r");
  try {
    const parts: Buffer[] = [];
    // One byte more than the limit is enough. Files in /proc say that they have none.
    for (let left = bytesMax + 1; left > 0; ) {
      const part = Buffer.allocUnsafe(Math.min(left, READ_BYTES));
      const length = readSync(file, part);
      if (length === 0) return Buffer.concat(parts);
      parts.push(part.subarray(0, length));
      left -= length;
    }
  } finally {
    closeSync(file);
  }
  throw new Error(`${path} has more than ${bytesMax} bytes, which are not read`);
}

const READ_BYTES = 65_536;

/** Writes a new file for its owner alone and waits until it is on the disk. Returns its path; throws when it exists. */
export function writeDurably(path: string, content: Buffer): string {
  const file = openSync(path, "wx", 0o600);
  try {
    for (let at = 0; at < content.length; ) at += writeSync(file, content, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return path;
}

/** Its old content or the new, also after a power failure. For its owner alone. `partial`: beside it, nobody else's. */
export function replaceDurably(path: string, content: Buffer, partial = `${path}.new`): void {
  rmSync(partial, { force: true });
  try {
    renameSync(writeDurably(partial, content), path);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  syncDirectory(dirname(path));
}

export function syncDirectory(path: string): void {
  const directory = openSync(path, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
