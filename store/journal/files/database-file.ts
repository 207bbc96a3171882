/*
 * store/journal/files/: the files of the state directory, and whether they are what was answered from
 *
 *   database-file, open-database   a database while closed, and while open; file-watch: looks at it once a second
 *   network-filesystem             where it cannot be
 *   loss                           its files against what was answered: notes, progress, page-sums, write-ahead-log
 *   aside                          what cannot be trusted, and what takes its place
 *   state-files, disk-reserve      names and markers; room for DELs
 */

import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { putAside, removeForeignLog, renameOddFiles, stillAside } from "./aside.ts";
import { compareWithAnswered, DamageError, type FilesFound } from "./loss.ts";
import { networkFilesystemName } from "./network-filesystem.ts";
import type { Notes } from "./notes.ts";
import { closeUncompared, OpenDatabase, type OpenOptions } from "./open-database.ts";
import { type Progress, ProgressRow } from "./progress.ts";
import { DATABASE_FILE, LOCK_FILE, REBUILD_MARKER } from "./state-files.ts";

/** How long a daemon is waited for that looks at the lock, or is giving it up, ms. */
const LOCK_MS_MAX = 100;

class StateInUseError extends Error {}

/**
 * Opens the database of a state directory for this process alone, compares it with what was answered from it, and
 * brings its schema up to date. Throws StateInUseError when another process has it, RebuildRequiredError when it is
 * damaged (its files are then renamed, never deleted), and an Error with the `code` of SQLite or the file system when
 * the directory cannot be used. See docs/decisions/0002 and 0050.
 */
export function openDatabase(directory: string, options: OpenOptions): OpenDatabase {
  try {
    return openTrusted(directory, options);
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    if (code === undefined) throw error;
    if (code === "ERR_DLOPEN_FAILED") {
      const problem = `the SQLite module of Holdfast cannot be loaded (${message})`;
      const remedy = "install Holdfast again; the state directory was not opened";
      throw Object.assign(new Error(`${problem}: ${remedy}`), { code });
    }
    const remedy = "expected a writable directory on a sound local disk with room; fix it, or give another --state";
    throw Object.assign(new Error(`state directory ${directory} cannot be used: ${message}; ${remedy}`), {
      code,
    });
  }
}

function openTrusted(directory: string, options: OpenOptions): OpenDatabase {
  const filesystem = networkFilesystemName(statfsSync(directory).type);
  if (filesystem !== null) {
    throw new Error(
      `state directory ${directory} is on ${filesystem}: SQLite needs a local file system; give --state a local directory`,
    );
  }
  accessSync(directory, constants.W_OK);
  const unlock = lockDirectory(directory);
  try {
    // A crash may have come between the marker and the renames.
    if (existsSync(join(directory, REBUILD_MARKER))) throw stillAside(directory, options);
    renameOddFiles(directory, options);
    const found = compare(directory, options);
    // Not opened: SQLite deletes the log beside an empty database, and the log may still have everything.
    if (found instanceof DamageError && sizeOf(join(directory, DATABASE_FILE)) === 0)
      throw putAside(directory, found, options);
    return openSole(directory, { ...options, unlock }, found);
  } catch (error) {
    unlock();
    throw error;
  }
}

/**
 * From before a look at the files until after the last write of them, for a predecessor that is still ending changes
 * what is compared. The database's own lock cannot do that: it opens the files, and its end comes before what is
 * written about them. Returns how to give it up, which may be done again. Throws StateInUseError.
 */
function lockDirectory(directory: string): () => void {
  const path = join(directory, LOCK_FILE);
  for (;;) {
    emptyLock(path);
    const before = fileAt(path);
    const db = new Database(path, { timeout: LOCK_MS_MAX, ...nativeBinding() });
    const isOurs = () => before !== null && fileAt(path) === before;
    try {
      // No file beside it.
      db.pragma("journal_mode = MEMORY");
      db.exec("BEGIN EXCLUSIVE");
      if (isOurs()) return () => removeAndClose(db, path, isOurs);
    } catch (error) {
      db.close();
      if (isBusy(error)) throw inUse(directory);
      const { code, message } = error as { code?: string; message: string };
      throw Object.assign(new Error(`${path} cannot be locked: ${message}`), { code });
    }
    // Whoever had it has removed it, and another may have another file. An open file's number is not given again.
    db.close();
  }
}

/** It has no content, with which SQLite would take it for a database, and nothing of SQLite's beside it. */
function emptyLock(path: string): void {
  for (const suffix of ["-journal", "-wal", "-shm"]) rmSync(path + suffix, { force: true, recursive: true });
  const there = lstatSync(path, { throwIfNoEntry: false });
  // Of a link it would be somebody else's file that is emptied.
  if (there !== undefined && (!there.isFile() || there.nlink > 1)) rmSync(path, { recursive: true });
  else if ((there?.size ?? 0) > 0) truncateSync(path);
  // Closing a file ends the locks that this process has on it.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
}

function removeAndClose(db: Database.Database, path: string, isOurs: () => boolean): void {
  try {
    if (db.open && isOurs()) rmSync(path);
  } catch {
    // One that stays is locked by the next daemon.
  } finally {
    db.close();
  }
}

/** null: there is none. */
function fileAt(path: string): string | null {
  const file = statSync(path, { throwIfNoEntry: false });
  return file === undefined ? null : `${file.dev}:${file.ino}`;
}

/** Changes the files of a directory that nobody has open. Throws StateInUseError. */
export function whileLocked<T>(directory: string, work: () => T): T {
  const unlock = lockDirectory(directory);
  try {
    return work();
  } finally {
    unlock();
  }
}

function isBusy(error: unknown): boolean {
  return (error as { code?: string }).code === "SQLITE_BUSY";
}

function inUse(directory: string): StateInUseError {
  return new StateInUseError(
    `state directory ${directory} is in use by another holdfast daemon; stop it or give another --state`,
  );
}

/** Before SQLite opens the files, which may change them; judged once its lock shows that nobody else has them open. */
function compare(directory: string, options: OpenOptions): FilesFound | DamageError {
  try {
    return compareWithAnswered(directory, options.notes, options);
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  }
}

function openSole(
  directory: string,
  options: OpenOptions & { readonly unlock: () => void },
  found: FilesFound | DamageError,
): OpenDatabase {
  const file = join(directory, DATABASE_FILE);
  const { notes, clock, log } = options;
  if (!(found instanceof DamageError) && found.isLogForeign)
    log.error(
      `the write-ahead log in ${directory} is not that of its database, which has everything without it; it was kept as ${removeForeignLog(directory, clock)}`,
    );
  // SQLite gives its log the rights of the database, and a new database those of the process's umask.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  const db = new Database(file, { timeout: 0, ...nativeBinding() });
  let open: OpenDatabase | null = null;
  try {
    lock(db);
    tune(db);
    if (found instanceof DamageError) throw found;
    if (found.sums === null) check(db);
    const progress = begin(db, found.progress, options);
    open = new OpenDatabase(directory, db, found.sums, { ...options, progress, copied: found.copied });
    return open;
  } catch (error) {
    if (isBusy(error)) {
      db.close();
      throw inUse(directory);
    }
    if (isDamage(error)) {
      // Renamed while open: closing would take the log into the damaged file and delete it.
      const aside = putAside(directory, found instanceof DamageError ? found : (error as Error), options);
      db.close();
      throw aside;
    }
    closeQuietly(db, open, notes);
    throw error;
  }
}

/** Counts this opening as a commit: no copy of before is taken for what comes after. Returns how far it is now. */
function begin(db: Database.Database, found: Progress | null, { notes, clock, migrate }: OpenOptions): Progress {
  const id = found?.id ?? clock.randomBytes(16).toString("hex");
  // Whoever finds these notes and no such database knows that nothing was answered from it.
  if (found === null) {
    expectEmpty(db);
    notes.begin({ id, commits: 0, copied: 0, sums: null });
  }
  const progress = { id, commits: (found?.commits ?? 0) + 1 };
  db.transaction(() => {
    migrate(db);
    new ProgressRow(db).begin(progress);
  })();
  return progress;
}

/** A database that does not say how far it has come is new, damaged, or another application's. */
function expectEmpty(db: Database.Database): void {
  if ((db.prepare<[], number>("SELECT count(*) FROM sqlite_schema").pluck().get() as number) > 0)
    throw new DamageError("it does not say how far it has come: its second page is damaged, or it is not Holdfast's", {
      isUsable: true,
    });
}

function lock(db: Database.Database): void {
  // Exclusive before the first access: the lock is taken once and held, and no shared-memory file is needed.
  db.pragma("locking_mode = EXCLUSIVE");
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.pragma("foreign_keys = ON");
  // Takes the lock now and makes the log exist before it is said that it must.
  db.exec("BEGIN IMMEDIATE; COMMIT");
}

/** The log is copied where OpenDatabase says. */
function tune(db: Database.Database): void {
  // The savepoint of each request keeps copies of the pages it changes: in memory, not in a temporary file.
  db.pragma("temp_store = MEMORY");
  db.pragma("wal_autocheckpoint = 0");
}

/** Of a database without sums of its pages: of a first start that was cut short, or of a rebuild. */
function check(db: Database.Database): void {
  const verdict = db.pragma("quick_check(1)", { simple: true });
  if (verdict !== "ok") throw new DamageError(String(verdict));
}

/** In dist/ the native addon lies beside the bundle; in the source tree better-sqlite3 finds its own. */
export function nativeBinding(): { nativeBinding?: string } {
  const bundled = join(import.meta.dirname, "better_sqlite3.node");
  return existsSync(bundled) ? { nativeBinding: bundled } : {};
}

export function isDamage(error: unknown): boolean {
  return error instanceof DamageError || /^SQLITE_(CORRUPT|NOTADB)/.test(String((error as { code?: unknown }).code));
}

/** For a database that could not be used: that error tells more than one from closing it. */
function closeQuietly(db: Database.Database, open: OpenDatabase | null, notes: Notes): void {
  try {
    if (open === null) closeUncompared(db, notes);
    else open.close();
  } catch {
    // The caller throws the first error.
  }
}

/** 0 also when there is no such file. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
