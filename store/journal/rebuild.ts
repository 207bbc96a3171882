import { closeSync, existsSync, fsyncSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Clock, isoTime } from "../../platform/time.ts";
import type { BootRecord } from "./files/boot-record.ts";
import { nativeBinding, whileLocked } from "./files/database-file.ts";
import {
  acceptRebuild,
  expectMarker,
  REBUILD_MARKER,
  renameAside,
  writeMarker,
} from "./files/state-files.ts";
import type { Ledger } from "./ledger.ts";
import { migrate, SCHEMA_VERSION } from "./migrations.ts";
import { prepareStatements } from "./statements.ts";

const COPY_BLOCK_BYTES = 1 << 20;

/** Puts a backup (or, with null, an empty database) in place of one that was put aside. Throws RefusalError. */
export function rebuildFrom(directory: string, backup: string | null, boot: BootRecord | null): void {
  const copy = backup === null ? null : copyOf(directory, backup);
  try {
    expectMarker(directory);
    whileLocked(directory, () => acceptRebuild(directory, copy, boot));
  } catch (error) {
    if (copy !== null) rmSync(copy, { force: true });
    throw refused(backup, (error as Error).message);
  }
}

/** A copy, or with null an empty database, in place of a sound, closed one. Returns under which names that is kept. */
export function replaceSound(
  directory: string,
  source: string | null,
  { clock, boot }: { readonly clock: Clock; readonly boot: BootRecord | null },
): string[] {
  return whileLocked(directory, () => {
    writeMarker(directory, REBUILD_MARKER);
    const kept = renameAside(directory, "replaced", clock);
    acceptRebuild(directory, source, boot);
    return kept;
  });
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

/** A verified and durable copy of a backup in the state directory. Returns its path; throws RefusalError. */
export function copyOf(directory: string, backup: string): string {
  if (!existsSync(backup))
    throw refused(backup, `backup ${backup} does not exist on the daemon's machine; give its absolute path`);
  const copy = join(directory, "holdfast.db.rebuilding");
  try {
    // A log left by a crash beside an earlier copy would be taken for this copy's.
    for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(copy + suffix, { force: true });
    copyPrivately(backup, copy);
    verify(copy, backup);
    const fd = openSync(copy, "r+");
    fsyncSync(fd);
    closeSync(fd);
    return copy;
  } catch (error) {
    rmSync(copy, { force: true });
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

function verify(copy: string, name: string): void {
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
    // One file, no log beside it: what is renamed into place is all there is.
    db.pragma("journal_mode = DELETE");
  } catch (error) {
    throw new Error(`${name} is not a sound holdfast backup: ${(error as Error).message}`);
  } finally {
    db.close();
  }
}
