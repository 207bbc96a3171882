import { symlinkSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";

/** As `PRAGMA synchronous` tells it. */
const SYNCHRONOUS_FULL = 2;

/** The databases that are open, by their folder. */
const OPEN = new Map<string, Database.Database>();

/**
 * From here on every database that is opened is known by its folder. The product opens them itself, with a pragma first, and has
 * no port for it.
 */
export function knowDatabases(): void {
  if (pragma !== Database.prototype.pragma) return;
  Database.prototype.pragma = function (this: Database.Database, ...given) {
    OPEN.set(dirname(this.name), this);
    return pragma.apply(this, given);
  } as typeof pragma;
}
const { pragma } = Database.prototype;

/** Nobody opens anything in the folder any more. */
export function forgetDatabase(folder: string): void {
  const db = OPEN.get(folder);
  OPEN.delete(folder);
  if (db?.open) db.close();
}

/** Whether what is committed in the folder survives a power failure, and not only the end of the process. */
export const isSyncing = (folder: string): boolean =>
  OPEN.get(folder)?.pragma("synchronous", { simple: true }) === SYNCHRONOUS_FULL;

/** The disk has no room: the next page that the database needs is refused, and so is the reserve. */
export function fillDisk(folder: string): void {
  const db = OPEN.get(folder);
  if (db?.open) db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`);
}

/** The next write is refused, as of a file system that an error has made read-only for a moment: whoever opens it again may write. */
export function refuseWrite(folder: string): void {
  const db = OPEN.get(folder);
  if (db?.open) db.pragma("query_only = 1");
}

/** What takes up space cannot be written again. */
export function keepFull(folder: string): void {
  try {
    symlinkSync("/dev/full", join(folder, "reserve"));
  } catch {
    // It is there: not spent yet, or full already.
  }
}

export function makeRoom(folder: string): void {
  const db = OPEN.get(folder);
  if (db?.open) db.pragma("max_page_count = 1073741823");
  try {
    unlinkSync(join(folder, "reserve"));
  } catch {
    // It has been spent.
  }
}
