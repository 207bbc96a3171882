import { existsSync, lstatSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readBounded, SMALL_FILE_BYTES_MAX, syncDirectory } from "../../../platform/files.ts";
import { type Clock, isoTimeMs } from "../../../platform/time.ts";
import type { StoreLog } from "../../node-context.ts";
import { DamageError, readContent } from "./loss.ts";
import type { Notes } from "./notes.ts";
import type { Progress } from "./progress.ts";
import {
  ANSWERED_FILES,
  DATABASE_FILE,
  expectMarker,
  JOURNAL_FILE,
  LOG_FILE,
  PAGES_FILE,
  REBUILD_MARKER,
  removeMarker,
  writeMarker,
} from "./state-files.ts";

/** The database cannot be trusted; it has been put aside and the operator must choose how to go on. */
export class RebuildRequiredError extends Error {
  readonly command: string;

  /** `usable`: the path of a database that may be rebuilt from; null: there is none. */
  constructor(message: string, usable: string | null) {
    super(message);
    this.command =
      usable === null
        ? "holdfast rebuild --from BACKUP, or --empty"
        : `holdfast rebuild --from ${usable}, or from a newer BACKUP, or --empty`;
  }
}

export interface Asider {
  readonly clock: Clock;
  readonly notes: Notes;
  /** Whether a database could be rebuilt from that file, and its log if it has one. */
  isSound(databasePath: string): boolean;
}

/** Renames the database and its log, and makes every later start wait for the operator. Returns the error to throw. */
export function putAside(directory: string, damage: Error, { clock, notes, isSound }: Asider): RebuildRequiredError {
  const file = join(directory, DATABASE_FILE);
  const target = asideName(directory, "damaged", clock);
  const isThere = existsSync(file);
  const progress = isThere ? readContent(file, join(directory, LOG_FILE)).progress : null;
  const isUsable = isThere && damage instanceof DamageError && damage.isUsable && isSound(file);
  const usable = isUsable ? join(directory, target) : null;
  writeMarker(directory, isUsable ? target : NOT_USABLE);
  const kept = renameAside(directory, target);
  // Else the next start would take a directory without a database for a new one, should the marker be lost. No database
  // has that identity.
  if (notes.latest() === null && progress !== null)
    notes.restart({ ...progress, id: clock.randomBytes(16).toString("hex") });
  return new RebuildRequiredError(
    `the state database of ${directory} is damaged (${damage.message}); ${kept.length > 0 ? `it was kept as ${kept.join(" and ")}` : "nothing of it is left"}`,
    usable,
  );
}

/** What the marker says where nothing of what was put aside may be rebuilt from. */
const NOT_USABLE = "none";
/** Names that are given by `putAside`. */
const ASIDE_NAME = /^holdfast\.db\.damaged-[\w-]+$/;

/** For a start that finds the marker: a crash may have come between it and the renames. */
export function stillAside(directory: string, { clock, isSound }: Asider): RebuildRequiredError {
  const marker = contentOf(join(directory, REBUILD_MARKER));
  const named = ASIDE_NAME.test(marker) ? marker : null;
  const isThere = existsSync(join(directory, DATABASE_FILE));
  const kept = named ?? asideName(directory, "damaged", clock);
  if (isThere)
    renameAside(directory, existsSync(join(directory, kept)) ? asideName(directory, "damaged", clock) : kept);
  const path = join(directory, kept);
  // Else somebody made the marker by hand, or emptied it.
  const isJudged = named !== null || marker === NOT_USABLE;
  const isUsable = existsSync(path) && (isJudged ? named !== null : isSound(path));
  if (!isJudged) writeMarker(directory, isUsable ? kept : NOT_USABLE);
  return new RebuildRequiredError(
    `the state database of ${directory} was put aside earlier and not rebuilt yet`,
    isUsable ? path : null,
  );
}

/** "": it has none that can be read. */
function contentOf(path: string): string {
  try {
    return readBounded(path, SMALL_FILE_BYTES_MAX).toString("utf8");
  } catch {
    return "";
  }
}

/** What is no file where Holdfast has one, or a journal of SQLite's, which its databases never have, stops a start. */
export function renameOddFiles(
  directory: string,
  { clock, log }: Pick<Asider, "clock"> & { readonly log: StoreLog },
): void {
  const suffix = `.${suffixOf("replaced", clock)}`;
  for (const name of [LOG_FILE, PAGES_FILE, ...ANSWERED_FILES, JOURNAL_FILE]) {
    const there = lstatSync(join(directory, name), { throwIfNoEntry: false });
    if (there === undefined || (there.isFile() && name !== JOURNAL_FILE)) continue;
    renameSync(join(directory, name), join(directory, name + suffix));
    log.error(`${name} in ${directory} is not what Holdfast leaves there; it was kept as ${name + suffix}`);
  }
}

/** Puts `source`, or with null an empty database, in place of a sound one. Returns under which names that is kept. */
export function replaceFiles(
  directory: string,
  source: NewDatabase | null,
  { clock, notes }: Pick<Asider, "clock" | "notes">,
): string[] {
  writeMarker(directory, NOT_USABLE);
  rmSync(join(directory, PAGES_FILE), { force: true });
  const kept = renameAside(directory, asideName(directory, "replaced", clock));
  acceptRebuild(directory, source, notes);
  return kept;
}

export interface NewDatabase {
  readonly path: string;
  readonly progress: Progress;
}

/** Puts a new database in place (`source`, or none for an empty one) and lets the next openDatabase succeed. */
export function acceptRebuild(directory: string, source: NewDatabase | null, notes: Notes): void {
  expectMarker(directory);
  if (source !== null) renameSync(source.path, join(directory, DATABASE_FILE));
  notes.restart(source?.progress ?? null);
  removeMarker(directory);
}

/** Under which name the log of a database is no longer in the way of one that does not need it. */
export function removeForeignLog(directory: string, clock: Clock): string {
  const name = `${LOG_FILE}.${suffixOf("replaced", clock)}`;
  renameSync(join(directory, LOG_FILE), join(directory, name));
  syncDirectory(directory);
  return name;
}

/** One that is not there yet: what was put aside is never written over. */
function asideName(directory: string, why: "damaged" | "replaced", clock: Clock): string {
  const name = `${DATABASE_FILE}.${suffixOf(why, clock)}`;
  let free = name;
  for (let count = 2; existsSync(join(directory, free)); count += 1) free = `${name}-${count}`;
  return free;
}

function suffixOf(why: string, clock: Clock): string {
  return `${why}-${isoTimeMs(clock.wallMs()).replaceAll(/[:.]/g, "-")}`;
}

/** Returns the names of the database and its log, which comes to be where SQLite looks for it if it belongs to it. */
function renameAside(directory: string, name: string): string[] {
  const [file, log] = [join(directory, DATABASE_FILE), join(directory, LOG_FILE)];
  const kept: string[] = [];
  if (existsSync(log)) {
    const isUsed = existsSync(file) && readContent(file, log).isLogUsed;
    const target = isUsed ? `${name}-wal` : name.replace(DATABASE_FILE, LOG_FILE);
    renameSync(log, join(directory, target));
    kept.push(target);
  }
  if (existsSync(file)) {
    renameSync(file, join(directory, name));
    kept.unshift(name);
  }
  const pages = join(directory, PAGES_FILE);
  if (existsSync(pages)) renameSync(pages, join(directory, name.replace(DATABASE_FILE, PAGES_FILE)));
  syncDirectory(directory);
  return kept;
}
