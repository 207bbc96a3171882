import type { Buffer } from "node:buffer";
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

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

/** Waits until the names in a folder are on the disk. */
export function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
