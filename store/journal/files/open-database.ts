import { closeSync, fdatasyncSync, fstatSync, openSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import type Database from "better-sqlite3";
import type { Clock } from "../../../platform/time.ts";
import { AcknowledgedRecord } from "./acknowledged.ts";
import type { BootRecord, Progress } from "./boot-record.ts";
import { DamageError, type Durability, PAGE_BYTES } from "./loss.ts";
import { PageSums } from "./page-sums.ts";
import {
  DATABASE_FILE,
  forgetWhatWas,
  INITIALISED_MARKER,
  LOG_FILE,
  OPEN_FILE,
  PAGES_FILE,
  putAside,
  type RebuildRequiredError,
  writeMarker,
} from "./state-files.ts";
import { isSame, logBytes, readLog, readSalts, type Salts } from "./write-ahead-log.ts";

/**
 * A full log (64 MB) is copied into the database while everybody waits. A batch of 64 writes some 110 pages, so less than
 * one request in a hundred waits; with SQLite's 1,000 pages it would be one in nine.
 */
const LOG_FRAMES_MAX = 16_000;
/** Without a commit for so long the log is copied, ms: what is at stake when it comes to harm is the work of seconds. */
const IDLE_MS = 5_000;
/** Without such a pause it is copied at this age, ms. */
const LOG_AGE_MS_MAX = 60_000;

export interface OpenOptions extends Durability {
  /** Names what is put aside. */
  readonly clock: Clock;
  /** null: nothing outside of the directory remembers it. */
  readonly boot: BootRecord | null;
  /** Brings the schema up to date. */
  migrate(db: Database.Database): void;
}

/** What a look at the files of an open database found. */
export type FileState =
  | "sound"
  /** The names lead elsewhere; the open files still have everything. */
  | { readonly displaced: string }
  /** Closed and opened again it is compared with what was answered. */
  | { readonly meddled: string };

/**
 * A database and what is known of its files: the sums of its pages, and what has been answered from its log. Only this
 * copies the log into the database, so that both are known at any moment.
 */
export class OpenDatabase {
  readonly db: Database.Database;
  readonly #directory: string;
  readonly #clock: Clock;
  readonly #bootId: string;
  readonly #sums: PageSums;
  readonly #record: AcknowledgedRecord;
  readonly #boot: BootRecord | null;
  readonly #opened: number;
  readonly #unlock: () => void;
  #progress: Progress | null = null;
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
  #commits = 0;
  #commitAtMs: number;
  #copyAtMs: number;
  /** A record that could not be written: at the next look. */
  #fault: unknown = null;

  /** The database is locked and sound, and may have a log of before; `sums` is null where nothing was answered from it yet. */
  constructor(
    directory: string,
    db: Database.Database,
    sums: PageSums | null,
    {
      clock,
      bootId,
      boot,
      opened,
      unlock,
    }: OpenOptions & Pick<Progress, "opened"> & { readonly unlock: () => void },
  ) {
    this.db = db;
    this.#directory = directory;
    this.#clock = clock;
    this.#bootId = bootId;
    this.#boot = boot;
    this.#opened = opened;
    this.#unlock = unlock;
    this.#frameCount = db.prepare<[], [number, number, number]>("PRAGMA wal_checkpoint(NOOP)").raw();
    this.#directoryStat = statSync(directory);
    this.#fileStat = statSync(this.#path(DATABASE_FILE));
    this.#log = openSync(this.#path(LOG_FILE), "r");
    this.#logStat = fstatSync(this.#log);
    this.#commitAtMs = this.#copyAtMs = clock.monotonicMs();
    if (sums === null) {
      db.pragma("wal_checkpoint(PASSIVE)");
      this.#file = openSync(this.#path(DATABASE_FILE), "r");
      this.#sums = PageSums.of(this.#path(PAGES_FILE), this.#file, PAGE_BYTES);
      writeMarker(directory, INITIALISED_MARKER);
    } else {
      this.#file = null;
      this.#sums = sums;
    }
    this.#copy();
    this.#record = AcknowledgedRecord.begin(this.#path(OPEN_FILE), this.#acknowledged());
  }

  get isLogFull(): boolean {
    return !this.#isCopied && this.#frames >= LOG_FRAMES_MAX;
  }

  /** From now on the boot remembers it. */
  begin(database: Pick<Progress, "id" | "opened">): void {
    this.#progress = { ...database, commits: this.#commits };
    this.committed();
  }

  /** After each COMMIT, before anybody hears of it. */
  committed(): void {
    try {
      if (!this.#noteFrames()) return;
      this.#commits += 1;
      this.#commitAtMs = this.#clock.monotonicMs();
      this.#record.write(this.#acknowledged());
      if (this.#progress !== null) this.#boot?.write({ ...this.#progress, commits: this.#commits });
    } catch (error) {
      this.#fault = error;
    }
  }

  /** Copies the log into the database, and says so on the disk. Throws DamageError when it is not as it was written. */
  copyLog(): void {
    this.#copy();
    this.#record.write(this.#acknowledged());
    this.#record.syncNow();
  }

  /**
   * Looks whether the files are still those that are open and as they were written, and copies a log that is at rest.
   * Throws DamageError, or what writing reported.
   */
  look(): FileState {
    if (this.#fault !== null) throw this.#fault;
    const displaced = this.#whyDisplaced();
    if (displaced !== null) return { displaced };
    const file = statSync(this.#path(DATABASE_FILE));
    if (file.mtimeMs !== this.#fileStat.mtimeMs || file.size !== this.#fileStat.size)
      return { meddled: `${DATABASE_FILE} was written by another program` };
    const log = statSync(this.#path(LOG_FILE), { throwIfNoEntry: false });
    if (log === undefined || !isSameFile(log, this.#logStat))
      return { meddled: `${LOG_FILE} was removed or replaced` };
    if (!this.#isCopied && log.size < logBytes(this.#frames, PAGE_BYTES))
      throw new DamageError(`${LOG_FILE} was cut to ${log.size} bytes while the daemon was writing it`);
    const nowMs = this.#clock.monotonicMs();
    const isIdle = nowMs - this.#commitAtMs >= IDLE_MS;
    if (this.#frames > 0 && !this.#isEmpty && isIdle) {
      this.copyLog();
      this.db.pragma("wal_checkpoint(TRUNCATE)");
      this.#isEmpty = true;
    } else if (!this.#isCopied && nowMs - this.#copyAtMs >= LOG_AGE_MS_MAX) this.copyLog();
    else this.#record.syncSoon();
    return "sound";
  }

  /** In order, so that the next start finds everything in the database and no log. After a DamageError it is to be put aside. */
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
      closeUncompared(this.#directory, this.db);
    }
    this.#release();
    this.#record.close({ isKept: isDisplaced });
    if (this.#progress !== null && !isDisplaced) this.#boot?.write({ ...this.#progress, commits: null });
    this.#boot?.close();
  }

  /** Renames files that cannot be trusted, and closes them without copying the log. Returns the error that says so. */
  putAside(why: string): RebuildRequiredError {
    try {
      return putAside(this.#directory, why, this.#clock);
    } finally {
      try {
        this.db.close();
        this.#release();
        this.#record.close({ isKept: true });
        this.#boot?.close();
      } finally {
        this.#unlock();
      }
    }
  }

  /** After the database was closed: closing its file ends the locks that SQLite has on it. */
  #release(): void {
    closeSync(this.#log);
    if (this.#file !== null) closeSync(this.#file);
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
      const log = readLog(this.#log, PAGE_BYTES, { framesMax: this.#frames });
      if (!isSameLog(log.salts, this.#salts) || log.frames < this.#frames)
        throw new DamageError(
          `${LOG_FILE} is damaged: of ${this.#frames} pages in it ${log.frames} are whole`,
        );
      // Neither the sums nor the pages may reach the disk before the log that they are of.
      fdatasyncSync(this.#log);
      this.#sums.write(log.pages, log.databasePages);
    }
    this.db.pragma("wal_checkpoint(PASSIVE)");
    this.#isCopied = true;
    this.#copyAtMs = this.#clock.monotonicMs();
    this.#fileStat = statSync(this.#path(DATABASE_FILE));
  }

  #acknowledged() {
    return {
      bootId: this.#bootId,
      salts: this.#salts,
      frames: this.#frames,
      isCopied: this.#isCopied,
      opened: this.#opened,
      commits: this.#commits,
    };
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

/**
 * Closing copies the log into the database. Where the sums of its pages could not be written, because the disk fails, the
 * next start has nothing to compare them with.
 */
export function closeUncompared(directory: string, db: Database.Database): void {
  try {
    forgetWhatWas(directory);
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
