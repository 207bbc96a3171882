import { closeSync, existsSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { syncDirectory } from "../../../platform/files.ts";

export const DATABASE_FILE = "holdfast.db";
export const LOG_FILE = `${DATABASE_FILE}-wal`;
/** SQLite's rollback journal, which a database with a write-ahead log has only while it is created. */
export const JOURNAL_FILE = `${DATABASE_FILE}-journal`;
/** Checksums of the database's pages. */
export const PAGES_FILE = "holdfast.pages";
/** What was answered from the database, twice: whoever loses one of them loses nothing. */
export const ANSWERED_FILES = ["holdfast.answered", "holdfast.answered-copy"] as const;
/** Locked by the daemon that has the directory; it has no content. */
export const LOCK_FILE = "holdfast.lock";
/**
 * Exists while the daemon waits for a rebuild: an empty database must never be taken for the truth. Contains the name
 * of what was put aside, if an operator may go on with it.
 */
export const REBUILD_MARKER = "rebuild-required";
/** All of the state directory, with backups, what was put aside, and what a file system has at its root. */
const OURS = /^(holdfast[.-].*|rebuild-required|reserve|spool|lost\+found)$/;

export function isOfState(name: string): boolean {
  return OURS.test(name);
}

/** Throws where another daemon has come first. */
export function expectMarker(directory: string): void {
  if (!existsSync(join(directory, REBUILD_MARKER)))
    throw new Error(`state directory ${directory} has been rebuilt by another daemon meanwhile`);
}

/** On a disk that takes no content the marker is there all the same: what was put aside is judged again then. */
export function writeMarker(directory: string, content: string): void {
  const descriptor = openSync(join(directory, REBUILD_MARKER), "w", 0o600);
  try {
    writeSync(descriptor, content);
  } catch {
    // It is empty.
  }
  fsyncSync(descriptor);
  closeSync(descriptor);
  syncDirectory(directory);
}

export function removeMarker(directory: string): void {
  rmSync(join(directory, REBUILD_MARKER), { force: true });
  syncDirectory(directory);
}
