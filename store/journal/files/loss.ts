import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import type { LatestNote, Notes } from "./notes.ts";
import { PageSums } from "./page-sums.ts";
import { PROGRESS_PAGE, type Progress, progressOfPage } from "./progress.ts";
import { DATABASE_FILE, LOG_FILE, PAGES_FILE } from "./state-files.ts";
import { type LogContent, readLog } from "./write-ahead-log.ts";

/** Of a database that SQLite made. */
export const PAGE_BYTES = 4_096;

/** The files differ from what the daemon left. */
export class DamageError extends Error {
  /** What is there is a database in itself, of an earlier moment: an operator may go on with it. */
  readonly isUsable: boolean;

  constructor(message: string, { isUsable = false } = {}) {
    super(message);
    this.isUsable = isUsable;
  }
}

export interface Durability {
  /** Its commits do not outlive the end of the machine: docs/decisions/0081. */
  readonly isRelaxed: boolean;
}

export interface FilesFound {
  /** null: nothing was ever answered from it. */
  readonly progress: Progress | null;
  /** Commits that are in its file itself, without the log. */
  readonly copied: number;
  /** Of the pages of its file; null: not known. */
  readonly sums: PageSums | null;
  /** The log is not of this database, or older than its file, which has everything: SQLite must not see it. */
  readonly isLogForeign: boolean;
}

/** A database as SQLite would read it: its file, and its log if that goes on from the file. */
export interface DatabaseContent {
  readonly progress: Progress | null;
  /** The log's commits follow on those of the file. */
  readonly isLogUsed: boolean;
}

const NO_LOG: LogContent = {
  salts: null,
  frames: 0,
  commitsBehind: 0,
  pages: new Map(),
  databasePages: 0,
  first: null,
  last: null,
};
const NEW: FilesFound = { progress: null, copied: 0, sums: null, isLogForeign: false };

/**
 * Compares the files of a closed database with what was answered from it: docs/decisions/0050. Throws DamageError.
 * Nothing may have the database open in this process: closing a file ends the locks that SQLite has on it.
 */
export function compareWithAnswered(directory: string, notes: Notes, { isRelaxed }: Durability): FilesFound {
  const latest = notes.latest();
  const isAnswered = latest === null ? notes.areThere || existsSync(join(directory, PAGES_FILE)) : latest.commits > 0;
  const log = contentOf(join(directory, LOG_FILE));
  const descriptor = openFile(join(directory, DATABASE_FILE));
  if (descriptor === null) {
    const isLost = isAnswered || (latest === null && log !== NO_LOG);
    if (!isLost) return NEW;
    throw new DamageError(whyGone(latest));
  }
  try {
    const file = new DatabaseFile(descriptor, log);
    const { progress, isLogUsed } = file.content;
    if (progress === null && !isAnswered) return NEW;
    if (latest === null)
      throw new DamageError(
        `nothing is left of the notes of what was answered from ${DATABASE_FILE}, and nobody can tell whether it has all of it`,
        { isUsable: true },
      );
    if (latest.isContested)
      throw new DamageError("its notes are of two databases, and nobody can tell which of them was here", {
        isUsable: true,
      });
    const pages = isLogUsed ? log.pages : NO_LOG.pages;
    const sums = soundSums(join(directory, PAGES_FILE), descriptor, latest, { ...log, pages });
    const isUnsynced = isRelaxed && !latest.isOfThisBoot;
    const isOther = progress?.id !== latest.id;
    if (isOther || (progress.commits < latest.commits && !isUnsynced)) {
      const isDamaged = typeof sums === "number" && (progress === null || file.progress?.commits === latest.copied);
      throw isDamaged ? wrongPage(sums) : lacking(progress, latest, log);
    }
    if (!latest.isOfThisBoot && !isUnsynced && log.commitsBehind > 1)
      throw new DamageError(`${LOG_FILE} is damaged, and commits behind the damage are whole`, {
        isUsable: true,
      });
    if (typeof sums === "number") throw wrongPage(sums);
    return {
      progress,
      copied: file.progress?.commits ?? 0,
      sums,
      isLogForeign: log !== NO_LOG && !isLogUsed,
    };
  } finally {
    closeSync(descriptor);
  }
}

/** What SQLite would read from a database file that nobody has open, and from a log. */
export function readContent(databasePath: string, logPath: string): DatabaseContent {
  const descriptor = openSync(databasePath, "r");
  try {
    return new DatabaseFile(descriptor, contentOf(logPath)).content;
  } finally {
    closeSync(descriptor);
  }
}

class DatabaseFile {
  /** In the file itself; null: it has none, or the page is damaged. */
  readonly progress: Progress | null;
  readonly #pages: number;
  readonly #log: LogContent;

  constructor(descriptor: number, log: LogContent) {
    const page = Buffer.alloc(PAGE_BYTES);
    const bytes = readSync(descriptor, page, 0, PAGE_BYTES, (PROGRESS_PAGE - 1) * PAGE_BYTES);
    this.progress = bytes === PAGE_BYTES ? progressOfPage(page) : null;
    this.#pages = Math.floor(fstatSync(descriptor).size / PAGE_BYTES);
    this.#log = log;
  }

  get content(): DatabaseContent {
    const isLogUsed = this.#isContinuedByLog();
    return { isLogUsed, progress: (isLogUsed ? this.#log.last : null) ?? this.progress };
  }

  /**
   * Each commit writes its number into the page of the progress, so the first one in a log that belongs to the file is
   * at most the next one, and the last one no older. The page itself may be half copied.
   */
  #isContinuedByLog(): boolean {
    const { frames, first, last } = this.#log;
    if (frames === 0) return false;
    if (first === null || last === null) return this.progress === null;
    if (this.progress === null) return this.#pages >= PROGRESS_PAGE || first.commits <= 1;
    const { id, commits } = this.progress;
    return last.id === id && first.commits <= commits + 1 && last.commits >= commits;
  }
}

/**
 * Sums that all pages of the file agree with but those that are in the log, which may be half copied; null: not known;
 * else the number of a page that is wrong. A file of sums that is missing, damaged or of another time is made again if
 * the note's sum of them confirms it.
 */
function soundSums(path: string, descriptor: number, latest: LatestNote, log: LogContent): PageSums | null | number {
  if (latest.sums === null) return null;
  const written = PageSums.read(path);
  if (written?.sum === latest.sums) return written.firstWrong(descriptor, PAGE_BYTES, log.pages) ?? written;
  const found = PageSums.of(path, descriptor, PAGE_BYTES);
  if (found.sum === latest.sums) return found;
  const copied = found.after(log.pages, log.databasePages);
  if (log.pages.size > 0 && copied.sum === latest.sums) return copied;
  return written?.firstWrong(descriptor, PAGE_BYTES, log.pages) ?? 1;
}

function whyGone(latest: LatestNote | null): string {
  if (latest?.rememberedBy == null) return `${DATABASE_FILE} is gone or empty`;
  return `its database is gone, though a daemon had it open since this machine was started, as ${latest.rememberedBy} remembers: the directory was emptied, replaced, or hidden by a mount; if it still is elsewhere, put it back and start again`;
}

function wrongPage(page: number): DamageError {
  return new DamageError(`page ${page} of ${DATABASE_FILE} is not as it was written: damaged, or of another time`);
}

function lacking(progress: Progress | null, latest: LatestNote, log: LogContent): DamageError {
  const known = latest.rememberedBy === null ? "" : `, as ${latest.rememberedBy} remembers`;
  if (progress === null) return new DamageError(`${DATABASE_FILE} is not a database of Holdfast's, or is damaged`);
  if (progress.id !== latest.id)
    return new DamageError(`its database is that of another state directory${known}`, { isUsable: true });
  const ends = `: it ends at commit ${progress.commits} of ${latest.commits}${known}`;
  return new DamageError(`${whyBehind(progress, latest, log)}${ends}`, { isUsable: true });
}

/** The file itself is as it was when the log was last copied into it: the log lacks the rest. */
function whyBehind({ commits }: Progress, { copied, rememberedBy }: LatestNote, log: LogContent): string {
  if (commits < copied || rememberedBy !== null) return "its files are an older copy";
  if (log === NO_LOG) return `${LOG_FILE} is gone or empty, though the daemon did not end cleanly`;
  if (log.salts === null) return `the header of ${LOG_FILE} is damaged`;
  return `${LOG_FILE} is damaged or cut, or is not the log that the daemon wrote`;
}

/** null: there is none, or it is empty. */
function openFile(path: string): number | null {
  if (!existsSync(path)) return null;
  const descriptor = openSync(path, "r");
  if (fstatSync(descriptor).size > 0) return descriptor;
  closeSync(descriptor);
  return null;
}

function contentOf(path: string): LogContent {
  const descriptor = openFile(path);
  if (descriptor === null) return NO_LOG;
  try {
    return readLog(descriptor, PAGE_BYTES);
  } finally {
    closeSync(descriptor);
  }
}
