import { closeSync, existsSync, fsyncSync, openSync, readSync, rmSync, statfsSync, statSync, writeSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import Database from "better-sqlite3";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Clock, isoTime } from "../../platform/time.ts";
import { type Asider, acceptRebuild, type NewDatabase, replaceFiles } from "./files/aside.ts";
import { nativeBinding, whileLocked } from "./files/database-file.ts";
import type { DiskReserve } from "./files/disk-reserve.ts";
import { readContent } from "./files/loss.ts";
import { type Progress, ProgressRow } from "./files/progress.ts";
import { expectMarker } from "./files/state-files.ts";
import type { Ledger } from "./ledger.ts";
import { migrate, SCHEMA_VERSION } from "./migrations.ts";
import { prepareStatements } from "./statements.ts";

const COPY_BLOCK_BYTES = 1 << 20;

const COPY_FILE = "holdfast.db.rebuilding";

type Rebuilder = Pick<Asider, "clock" | "notes">;

/** Puts a backup (or, with null, an empty database) in place of one that was put aside. Throws RefusalError. */
export function rebuildFrom(directory: string, backup: string | null, { clock, notes }: Rebuilder): void {
  const copy = backup === null ? null : copyOf(directory, backup, clock);
  try {
    expectMarker(directory);
    whileLocked(directory, () => acceptRebuild(directory, copy, notes));
  } catch (error) {
    if (copy !== null) rmSync(copy.path, { force: true });
    throw refused(backup, (error as Error).message);
  }
}

/** A copy, or with null an empty database, in place of a sound, closed one. Returns under which names that is kept. */
export function replaceSound(directory: string, source: NewDatabase | null, rebuilder: Rebuilder): string[] {
  return whileLocked(directory, () => replaceFiles(directory, source, rebuilder));
}

/** Whether a database could be rebuilt from a file of the state directory: tried with a copy, in the reserve's room. */
export function isSound(databasePath: string, clock: Clock, reserve: Pick<DiskReserve, "spend">): boolean {
  const directory = dirname(databasePath);
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize < 2 * statSync(databasePath).size) reserve.spend();
  try {
    rmSync(copyOf(directory, databasePath, clock).path);
    return true;
  } catch {
    return false;
  }
}

/** In the table of single values: the last rebuild over a state that was lost. */
const REBUILT = "rebuilt";

interface Rebuilt {
  readonly bootId: string;
  readonly at: string;
  /** null: begun anew. */
  readonly from: string | null;
}

export function noteRebuilt({ sql, context }: Ledger, from: string | null): void {
  const rebuilt: Rebuilt = { bootId: context.bootId, at: isoTime(context.clock.wallMs()), from };
  sql.putMeta.run(REBUILT, JSON.stringify(rebuilt));
}

/** What no check can see as long as containers run that the lost state knew. */
export function whatWasLost({ sql, context }: Ledger): string[] {
  const { value } = sql.meta.get(REBUILT) ?? {};
  if (value === undefined) return [];
  const { bootId, at, from } = JSON.parse(value) as Rebuilt;
  if (bootId !== context.bootId) return [];
  return [
    `the state was lost and rebuilt at ${at} ${from === null ? "from nothing" : `from ${from}`}: containers that were attached ${from === null ? "before" : "after that backup was made, and before the rebuild,"} are not known, unless they were started again since; a reboot ends this note`,
  ];
}

/**
 * A verified and durable copy of a backup in the state directory, as a database of its own. The backup may have a
 * write-ahead log where SQLite looks for it: of a database copied while it was open, or put aside. Throws RefusalError.
 */
export function copyOf(directory: string, backup: string, clock: Clock): NewDatabase {
  if (!existsSync(backup))
    throw refused(backup, `backup ${backup} does not exist on the daemon's machine; give its absolute path`);
  const copy = join(directory, COPY_FILE);
  if (resolve(backup) === copy)
    throw refused(backup, "it is a copy that a rebuild did not finish; give the file that it was made from");
  try {
    // A log left by a crash beside an earlier copy would be taken for this copy's.
    for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(copy + suffix, { force: true });
    copyPrivately(backup, copy);
    const log = `${backup}-wal`;
    if (existsSync(log) && readContent(backup, log).isLogUsed) copyPrivately(log, `${copy}-wal`);
    const progress = verify(copy, { name: backup, id: clock.randomBytes(16).toString("hex") });
    const fd = openSync(copy, "r+");
    fsyncSync(fd);
    closeSync(fd);
    return { path: copy, progress };
  } catch (error) {
    for (const suffix of ["", "-wal"]) rmSync(copy + suffix, { force: true });
    throw refused(backup, (error as Error).message);
  }
}

function refused(backup: string | null, remedy: string): RefusalError {
  return new RefusalError(refuse("REQUEST_INVALID", { key: "from", value: String(backup), remedy }));
}

/** The copy is its owner's alone from the first byte on; copyFileSync would give it the rights of the backup. */
function copyPrivately(from: string, to: string): void {
  const source = openSync(from, "r");
  const target = openSync(to, "wx", 0o600);
  try {
    const block = Buffer.alloc(COPY_BLOCK_BYTES);
    for (let length = readSync(source, block); length > 0; length = readSync(source, block))
      for (let at = 0; at < length; ) at += writeSync(target, block, at, length - at);
  } finally {
    closeSync(target);
    closeSync(source);
  }
}

/** `id`: what tells it from the database that it is a copy of, which goes on elsewhere or has been lost. */
function verify(copy: string, { name, id }: { readonly name: string; readonly id: string }): Progress {
  let db: Database.Database;
  try {
    db = new Database(copy, nativeBinding());
  } catch (error) {
    throw new Error(`${name} cannot be opened: ${(error as Error).message}`);
  }
  try {
    const verdict = db.pragma("quick_check(1)", { simple: true });
    if (verdict !== "ok") throw new Error(String(verdict));
    const version = db.pragma("user_version", { simple: true }) as number;
    if (version < 1 || version > SCHEMA_VERSION)
      throw new Error(`schema version ${version} is not a holdfast backup this release reads`);
    // Another application's database may pass until here; this one must have our tables.
    migrate(db);
    prepareStatements(db);
    const row = new ProgressRow(db);
    const progress = { id, commits: row.commits };
    row.begin(progress);
    // One file, no log beside it: what is renamed into place is all there is.
    db.pragma("journal_mode = DELETE");
    return progress;
  } catch (error) {
    throw new Error(`${name} is not a sound holdfast backup: ${(error as Error).message}`);
  } finally {
    db.close();
  }
}
