import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { type Clock, isoTimeMs } from "../../platform/time.ts";
import { migrate } from "./migrations.ts";

const DATABASE_FILE = "holdfast.db";
/**
 * Exists while the database is open. If it exists without a write-ahead log, answered requests were lost:
 * docs/decisions/0006.
 */
const OPEN_MARKER = "holdfast.open";
/** Exists while the daemon waits for a rebuild: an empty database must never be taken for the truth. */
const REBUILD_MARKER = "rebuild-required";
/** Exists from the first start on: from then on a missing or empty database is a loss, not a first start. */
const INITIALISED_MARKER = "holdfast.initialised";
/** All of the state folder, with backups, what was put aside, and what a file system has at its root. */
const OURS = /^(holdfast[.-].*|rebuild-required|reserve|spool|lost\+found)$/;

/**
 * File systems on which SQLite's locks and write-ahead log do not work (statfs f_type, linux/magic.h and the file
 * systems' own sources).
 */
const NETWORK_FILESYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb2"],
  [0x00c36400, "ceph"],
  [0x5346414f, "afs"],
  [0x01021997, "9p"],
  [0x0bd00bd0, "lustre"],
  [0x01161970, "gfs2"],
  [0x7461636f, "ocfs2"],
]);

/** Another daemon holds the state folder. */
class StateInUseError extends Error {}
/** The database cannot be trusted; it has been put aside and the operator must choose how to go on. */
export class RebuildRequiredError extends Error {}
/** The files differ from what this daemon left. */
class DamageError extends Error {}

export function networkFilesystemName(type: number): string | null {
  return NETWORK_FILESYSTEMS.get(type >>> 0) ?? null;
}

/** Whether a name in a state folder is one that Holdfast or the file system makes there. */
export function isOfState(name: string): boolean {
  return OURS.test(name);
}

/**
 * Opens the database of a state folder for this process alone, checks it and brings its schema up to date.
 *
 * Throws StateInUseError when another process has it, RebuildRequiredError when it is damaged (its files are then
 * renamed, never deleted), and an Error with the `code` of SQLite or the file system when the folder cannot be used.
 * `clock` names what is put aside. See docs/decisions/0002.
 */
export function openDatabase(folder: string, clock: Clock): Database.Database {
  try {
    return openTrusted(folder, clock);
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    if (code === undefined) throw error;
    if (code === "ERR_DLOPEN_FAILED") {
      const problem = `the SQLite module of Holdfast cannot be loaded (${message})`;
      const remedy = "install Holdfast again; the state folder was not opened";
      throw Object.assign(new Error(`${problem}: ${remedy}`), { code });
    }
    const remedy =
      "expected a writable folder on a sound local disk with room; fix it, or give another --state";
    throw Object.assign(new Error(`state folder ${folder} cannot be used: ${message}; ${remedy}`), { code });
  }
}

function openTrusted(folder: string, clock: Clock): Database.Database {
  const filesystem = networkFilesystemName(statfsSync(folder).type);
  if (filesystem !== null) {
    throw new Error(
      `state folder ${folder} is on ${filesystem}: SQLite needs a local file system; give --state a local folder`,
    );
  }
  accessSync(folder, constants.W_OK);
  if (existsSync(join(folder, REBUILD_MARKER))) {
    renameAside(folder, "damaged", clock); // A crash may have come between the marker and the renames.
    throw new RebuildRequiredError(
      `the state database of ${folder} was put aside earlier and not rebuilt yet`,
    );
  }
  const file = join(folder, DATABASE_FILE);
  const wasOpen = existsSync(join(folder, OPEN_MARKER));
  const hasLog = sizeOf(`${file}-wal`) > 0;
  if (sizeOf(file) === 0 && (wasOpen || hasLog || existsSync(join(folder, INITIALISED_MARKER)))) {
    // Not opened: SQLite deletes the log beside an empty database, and the log may still have everything.
    throw putAside(folder, `${DATABASE_FILE} is gone or empty`, clock);
  }
  // Read before opening, which creates both; judged once the lock shows that the files are ours.
  const loss =
    wasOpen && !hasLog
      ? `the daemon did not end cleanly and ${DATABASE_FILE}-wal is gone or empty since`
      : null;
  return openLocked(folder, { file, loss, clock });
}

function openLocked(
  folder: string,
  given: { readonly file: string; readonly loss: string | null; readonly clock: Clock },
): Database.Database {
  const { file, loss, clock } = given;
  // SQLite gives its log the rights of the database, and a new database those of the process's umask.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  const db = new Database(file, { timeout: 0, ...nativeBinding() });
  try {
    lock(db);
    tune(db);
    if (loss !== null) throw new DamageError(loss);
    check(db);
    migrate(db);
    db.exec("INSERT INTO meta VALUES ('opened', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1");
    if (!existsSync(join(folder, INITIALISED_MARKER))) writeMarker(folder, INITIALISED_MARKER);
    writeMarker(folder, OPEN_MARKER);
    return db;
  } catch (error) {
    if ((error as { code?: string }).code === "SQLITE_BUSY") {
      db.close();
      throw new StateInUseError(
        `state folder ${folder} is in use by another holdfast daemon; stop it or give another --state`,
      );
    }
    if (isDamage(error)) {
      // Renamed while open: closing would take the log into the damaged file and delete it.
      const aside = putAside(folder, (error as Error).message, clock);
      db.close();
      throw aside;
    }
    // Closing may delete the log, so the marker must go too, unless something was lost: the next start must see that.
    if (loss !== null) db.close();
    else closeQuietly(folder, db);
    throw error;
  }
}

function lock(db: Database.Database): void {
  // Exclusive before the first access: the lock is taken once and held, and no shared-memory file is needed.
  db.pragma("locking_mode = EXCLUSIVE");
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.pragma("foreign_keys = ON");
  // Takes the lock now and makes the log exist before the marker says that it must.
  db.exec("BEGIN IMMEDIATE; COMMIT");
}

/** Settings that affect only speed (bench/README.md). */
function tune(db: Database.Database): void {
  // The savepoint of each request keeps copies of the pages it changes: in memory, not in a temporary file.
  db.pragma("temp_store = MEMORY");
  // A full log (64 MB) is copied into the database while everybody waits. A batch of 64 writes some 110 pages, so less
  // than one request in a hundred waits; with SQLite's 1,000 pages it would be one in nine.
  db.pragma("wal_autocheckpoint = 16000");
}

function check(db: Database.Database): void {
  const verdict = db.pragma("quick_check(1)", { simple: true });
  if (verdict !== "ok") throw new DamageError(String(verdict));
  // A failed sync leaves pages in the kernel's cache that may not be on the disk: they are written elsewhere and
  // synced. The log itself stays, however briefly: an empty one means that something was lost.
  db.pragma("wal_checkpoint(RESTART)");
}

/** In dist/ the native addon lies beside the bundle; in the source tree better-sqlite3 finds its own. */
export function nativeBinding(): { nativeBinding?: string } {
  const bundled = join(import.meta.dirname, "better_sqlite3.node");
  return existsSync(bundled) ? { nativeBinding: bundled } : {};
}

function isDamage(error: unknown): boolean {
  return (
    error instanceof DamageError ||
    /^SQLITE_(CORRUPT|NOTADB)/.test(String((error as { code?: unknown }).code))
  );
}

/** The marker is removed first: a crash in between leaves a log without a marker, which is an ordinary recovery. */
export function closeDatabase(folder: string, db: Database.Database): void {
  try {
    removeMarker(folder, OPEN_MARKER);
  } finally {
    db.close();
  }
}

/** For a database that could not be used: that error tells more than one from closing it. */
function closeQuietly(folder: string, db: Database.Database): void {
  try {
    closeDatabase(folder, db);
  } catch {
    // The caller throws the first error.
  }
}

/** Renames the database and its log, and makes every later start wait for the operator. Returns the error to throw. */
function putAside(folder: string, why: string, clock: Clock): RebuildRequiredError {
  writeMarker(folder, REBUILD_MARKER);
  const kept = renameAside(folder, "damaged", clock);
  removeMarker(folder, OPEN_MARKER);
  return new RebuildRequiredError(
    `the state database of ${folder} is damaged (${why}); ${kept.length > 0 ? `it was kept as ${kept.join(" and ")}` : "nothing of it is left"}`,
  );
}

/** Returns the new names of the files that existed. */
function renameAside(folder: string, why: "damaged" | "replaced", clock: Clock): string[] {
  const suffix = `.${why}-${isoTimeMs(clock.wallMs()).replaceAll(/[:.]/g, "-")}`;
  const found = [DATABASE_FILE, `${DATABASE_FILE}-wal`].filter((name) => existsSync(join(folder, name)));
  for (const name of found) renameSync(join(folder, name), join(folder, name + suffix));
  return found.map((name) => name + suffix);
}

/** Puts a sound, closed database aside before another one replaces it (`acceptRebuild`). Returns the new names. */
export function putSoundAside(folder: string, clock: Clock): string[] {
  writeMarker(folder, REBUILD_MARKER);
  return renameAside(folder, "replaced", clock);
}

/** Puts a new database in place (`source`, or none for an empty one) and lets the next openDatabase succeed. */
export function acceptRebuild(folder: string, source: string | null): void {
  if (!existsSync(join(folder, REBUILD_MARKER))) {
    throw new Error(`state folder ${folder} has been rebuilt by another daemon meanwhile`);
  }
  const file = join(folder, DATABASE_FILE);
  if (source !== null) {
    renameSync(source, file);
    syncFolder(folder);
  }
  removeMarker(folder, OPEN_MARKER);
  if (source === null) removeMarker(folder, INITIALISED_MARKER);
  removeMarker(folder, REBUILD_MARKER);
}

function writeMarker(folder: string, name: string): void {
  const fd = openSync(join(folder, name), "w", 0o600);
  fsyncSync(fd);
  closeSync(fd);
  syncFolder(folder);
}

function removeMarker(folder: string, name: string): void {
  rmSync(join(folder, name), { force: true });
  syncFolder(folder);
}

function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** 0 also when there is no such file. */
function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
