import { symlinkSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";

/** As `PRAGMA synchronous` tells it. */
const SYNCHRONOUS_FULL = 2;

/** The databases that are open, by their directory. */
const OPEN = new Map<string, Database.Database>();

/**
 * From here on every database that is opened is known by its directory. The product opens them itself, with a pragma
 * first, and has no port for it.
 */
export function knowDatabases(): void {
  if (pragma !== Database.prototype.pragma) return;
  Database.prototype.pragma = function (this: Database.Database, ...given) {
    OPEN.set(dirname(this.name), this);
    return pragma.apply(this, given);
  } as typeof pragma;
}
const { pragma } = Database.prototype;

/** Nobody opens anything in the directory any more. */
export function forgetDatabase(directory: string): void {
  const db = OPEN.get(directory);
  OPEN.delete(directory);
  if (db?.open) db.close();
}

/** Whether what is committed in the directory survives a power failure, and not only the end of the process. */
export const isSyncing = (directory: string): boolean =>
  OPEN.get(directory)?.pragma("synchronous", { simple: true }) === SYNCHRONOUS_FULL;

/** The disk has no room: the next page that the database needs is refused, and so is the reserve. */
export function fillDisk(directory: string): void {
  const db = OPEN.get(directory);
  if (db?.open) db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`);
}

/**
 * The next write is refused, as of a file system that an error has made read-only for a moment: whoever opens it again
 * may write.
 */
export function refuseWrite(directory: string): void {
  const db = OPEN.get(directory);
  if (db?.open) db.pragma("query_only = 1");
}

/** What takes up space cannot be written again. */
export function keepFull(directory: string): void {
  try {
    symlinkSync("/dev/full", join(directory, "reserve"));
  } catch {
    // It is there: not spent yet, or full already.
  }
}

export function makeRoom(directory: string): void {
  const db = OPEN.get(directory);
  if (db?.open) db.pragma("max_page_count = 1073741823");
  try {
    unlinkSync(join(directory, "reserve"));
  } catch {
    // It has been spent.
  }
}
