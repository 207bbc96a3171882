import { closeSync, fdatasyncSync, fstatSync, openSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import type { StoreLog } from "../../node-context.ts";
import { type Asider, putAside, type RebuildRequiredError } from "./aside.ts";
import { DamageError, type Durability, PAGE_BYTES } from "./loss.ts";
import type { Notes } from "./notes.ts";
import { PageSums } from "./page-sums.ts";
import { type Progress, ProgressRow } from "./progress.ts";
import { DATABASE_FILE, LOG_FILE, PAGES_FILE } from "./state-files.ts";
import { isSame, logBytes, readLog, readSalts, type Salts } from "./write-ahead-log.ts";

/**
 * A full log (64 MB) is copied into the database while everybody waits. A batch of 64 writes some 110 pages, so less
 * than one request in a hundred waits; with SQLite's 1,000 pages it would be one in nine.
 */
const LOG_FRAMES_MAX = 16_000;
/** Without a commit for so long the log is copied, ms: what is at stake when it comes to harm is seconds of work. */
const IDLE_MS = 5_000;
/** Without such a pause it is copied at this age, ms. */
const LOG_AGE_MS_MAX = 60_000;

export interface OpenOptions extends Durability, Asider {
  readonly log: StoreLog;
  migrate(db: Database.Database): void;
}

export type FileState =
  | "sound"
  /** The names lead elsewhere; the open files still have everything. */
  | { readonly displaced: string }
  /** Closed and opened again it is compared with what was answered. */
  | { readonly meddled: string };

/** A database, the sums of its pages and what was answered from its log. Only this copies the log: both stay known. */
export class OpenDatabase {
  readonly db: Database.Database;
  readonly #directory: string;
  readonly #asider: Asider;
  readonly #notes: Notes;
  readonly #id: string;
  readonly #row: ProgressRow;
  readonly #unlock: () => void;
  #sums: PageSums;
  readonly #log: number;
  /** Of the database file, where this had to read it. */
  readonly #file: number | null;
  readonly #frameCount: Database.Statement<[], [busy: number, log: number, copied: number]>;
  readonly #directoryStat: Stats;
  #fileStat: Stats;
  readonly #logStat: Stats;
  #salts: Salts | null = null;
  #frames = 0;
  #isCopied = true;
  /** The log has no frames; what is known of it is of the log before. */
  #isEmpty = false;
  #commits: number;
  /** The transaction under way is the next commit, if it succeeds. */
  #isCounted = false;
  /** Commits that are in the database file. */
  #copied: number;
  readonly #changeCount: Database.Statement<[], number>;
  #changes = 0;
  #commitAtMs: number;
  #copyAtMs: number;
  /** A record that could not be written: at the next look. */
  #fault: unknown = null;

  /**
   * The database is locked and sound, has come to `progress`, and may have a log of before; `copied`: the commits in
   * its file, of which `sums` are, or null where they are not known.
   */
  constructor(
    directory: string,
    db: Database.Database,
    sums: PageSums | null,
    {
      progress,
      copied,
      unlock,
      ...asider
    }: Asider & { readonly progress: Progress; readonly copied: number; readonly unlock: () => void },
  ) {
    this.db = db;
    this.#directory = directory;
    this.#asider = asider;
    this.#notes = asider.notes;
    this.#id = progress.id;
    this.#commits = progress.commits;
    this.#row = new ProgressRow(db);
    this.#unlock = unlock;
    this.#frameCount = db.prepare<[], [number, number, number]>("PRAGMA wal_checkpoint(NOOP)").raw();
    this.#changeCount = db.prepare<[], number>("SELECT total_changes()").pluck();
    this.#changes = this.#changeCount.get() ?? 0;
    this.#directoryStat = statSync(directory);
    this.#fileStat = statSync(this.#path(DATABASE_FILE));
    this.#log = openSync(this.#path(LOG_FILE), "r");
    this.#logStat = fstatSync(this.#log);
    this.#commitAtMs = this.#copyAtMs = asider.clock.monotonicMs();
    if (sums === null) {
      db.pragma("wal_checkpoint(PASSIVE)");
      this.#file = openSync(this.#path(DATABASE_FILE), "r");
      this.#sums = PageSums.of(this.#path(PAGES_FILE), this.#file, PAGE_BYTES);
    } else {
      this.#file = null;
      this.#sums = sums;
    }
    this.#copied = sums === null ? this.#commits : copied;
    this.#notes.begin(this.#note());
    this.#copy();
  }

  get isLogFull(): boolean {
    return !this.#isCopied && this.#frames >= LOG_FRAMES_MAX;
  }

  /** In each transaction that may be answered from, last before its COMMIT. One that changed nothing is not counted. */
  count(): void {
    this.#isCounted = false;
    const changes = this.#changeCount.get() ?? 0;
    if (changes === this.#changes) return;
    this.#row.write(this.#commits + 1);
    this.#isCounted = true;
    this.#changes = changes + 1;
  }

  /** After each COMMIT, before anybody hears of it. */
  committed(): void {
    // One that changed nothing has written nothing.
    if (!this.#isCounted) return;
    this.#isCounted = false;
    this.#commits += 1;
    try {
      if (!this.#noteFrames()) return;
      this.#commitAtMs = this.#asider.clock.monotonicMs();
      this.#notes.write(this.#note());
    } catch (error) {
      this.#fault = error;
    }
  }

  /** Copies the log into the database, and says so on the disk. Throws DamageError when it is not as it was written. */
  copyLog(): void {
    this.#copy();
    this.#notes.syncNow();
  }

  /** Whether the files are the open ones, as written; copies a log at rest. Throws DamageError, or write errors. */
  look(): FileState {
    if (this.#fault !== null) throw this.#fault;
    const displaced = this.#whyDisplaced();
    if (displaced !== null) return { displaced };
    const file = statSync(this.#path(DATABASE_FILE));
    if (file.mtimeMs !== this.#fileStat.mtimeMs || file.size !== this.#fileStat.size)
      return { meddled: `${DATABASE_FILE} was written by another program` };
    const log = statSync(this.#path(LOG_FILE), { throwIfNoEntry: false });
    if (log === undefined || !isSameFile(log, this.#logStat)) return { meddled: `${LOG_FILE} was removed or replaced` };
    if (!this.#isCopied && log.size < logBytes(this.#frames, PAGE_BYTES))
      throw new DamageError(`${LOG_FILE} was cut to ${log.size} bytes while the daemon was writing it`);
    const nowMs = this.#asider.clock.monotonicMs();
    const isIdle = nowMs - this.#commitAtMs >= IDLE_MS;
    if (this.#frames > 0 && !this.#isEmpty && isIdle) {
      this.copyLog();
      this.db.pragma("wal_checkpoint(TRUNCATE)");
      this.#isEmpty = true;
    } else if (!this.#isCopied && nowMs - this.#copyAtMs >= LOG_AGE_MS_MAX) this.copyLog();
    else this.#notes.syncSoon();
    return "sound";
  }

  /** In order: the next start finds all in the database, and no log. After a DamageError it is to be put aside. */
  close(): void {
    if (!this.db.open) return;
    try {
      this.#closeFiles();
    } catch (error) {
      if (!(error instanceof DamageError)) this.#unlock();
      throw error;
    }
    this.#unlock();
  }

  #closeFiles(): void {
    const isDisplaced = this.#whyDisplaced() !== null;
    try {
      if (!isDisplaced) this.copyLog();
      this.db.close();
    } catch (error) {
      if (error instanceof DamageError) throw error;
      if (isDisplaced) this.db.close();
      else closeUncompared(this.db, this.#notes);
    }
    this.#release();
  }

  /** Renames files that cannot be trusted, and closes them without copying the log. Returns the error that says so. */
  putAside(damage: Error): RebuildRequiredError {
    try {
      return putAside(this.#directory, damage, this.#asider);
    } finally {
      try {
        this.db.close();
        this.#release();
      } finally {
        this.#unlock();
      }
    }
  }

  /** What cannot be put aside now, as the disk fails, is found again by the next opening. */
  tryPutAside(damage: Error): void {
    try {
      this.putAside(damage);
    } catch {
      // It is closed all the same.
    }
  }

  /** After the database was closed: closing its file ends the locks that SQLite has on it. */
  #release(): void {
    closeSync(this.#log);
    if (this.#file !== null) closeSync(this.#file);
    this.#notes.close();
  }

  /** Returns whether there are frames that were not there before. */
  #noteFrames(): boolean {
    const frames = this.#frameCount.get()?.[1] ?? 0;
    if (frames === 0 || (frames === this.#frames && !this.#isCopied)) return false;
    if (this.#isCopied) {
      const salts = readSalts(this.#log);
      if (frames === this.#frames && isSameLog(salts, this.#salts)) return false;
      this.#salts = salts;
    }
    this.#frames = frames;
    this.#isCopied = this.#isEmpty = false;
    return true;
  }

  #copy(): void {
    this.#noteFrames();
    if (!this.#isCopied) {
      // Behind these may be the frames of a commit that failed, and that SQLite does not copy.
      const log = readLog(this.#log, PAGE_BYTES, this.#frames);
      if (!isSameLog(log.salts, this.#salts) || log.frames < this.#frames)
        throw new DamageError(`${LOG_FILE} is damaged: of ${this.#frames} pages in it ${log.frames} are whole`);
      // The order on the disk: the log, the sums of its pages, which of the sums counts, and only then the pages.
      fdatasyncSync(this.#log);
      this.#sums = this.#sums.after(log.pages, log.databasePages);
      this.#sums.write();
      this.#copied = this.#commits;
      this.#notes.write(this.#note());
      this.#notes.syncNow();
    }
    this.db.pragma("wal_checkpoint(PASSIVE)");
    this.#isCopied = true;
    this.#copyAtMs = this.#asider.clock.monotonicMs();
    this.#fileStat = statSync(this.#path(DATABASE_FILE));
  }

  #note() {
    return { id: this.#id, commits: this.#commits, copied: this.#copied, sums: this.#sums.sum };
  }

  #whyDisplaced(): string | null {
    const directory = statSync(this.#directory, { throwIfNoEntry: false });
    if (directory === undefined) return `the directory ${this.#directory} is gone`;
    if (!isSameFile(directory, this.#directoryStat))
      return `${this.#directory} is another directory now: it was renamed, or something was mounted over it`;
    const file = statSync(this.#path(DATABASE_FILE), { throwIfNoEntry: false });
    if (file === undefined) return `${this.#path(DATABASE_FILE)} is gone`;
    return isSameFile(file, this.#fileStat) ? null : `${this.#path(DATABASE_FILE)} is another file now`;
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }
}

/** Closing copies the log into the database, and where that failed before the sums of its pages are no longer known. */
export function closeUncompared(db: Database.Database, notes: Notes): void {
  try {
    notes.forgetSums();
  } finally {
    db.close();
  }
}

function isSameFile(left: Stats, right: Stats): boolean {
  return left.ino === right.ino && left.dev === right.dev;
}

function isSameLog(left: Salts | null, right: Salts | null): boolean {
  return left !== null && right !== null && isSame(left, right);
}
