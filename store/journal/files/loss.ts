import { closeSync, existsSync, fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { type Acknowledged, AcknowledgedRecord } from "./acknowledged.ts";
import { PageSums } from "./page-sums.ts";
import { DATABASE_FILE, INITIALISED_MARKER, LOG_FILE, OPEN_FILE, PAGES_FILE } from "./state-files.ts";
import { isSame, type LogContent, readLog, type Salts } from "./write-ahead-log.ts";

/** Of a database that SQLite made. */
export const PAGE_BYTES = 4_096;
/** The files differ from what the daemon left. */
export class DamageError extends Error {}

/** How a database was written. */
export interface Durability {
  /** The present boot of the machine. */
  readonly bootId: string;
  /** Its commits do not outlive the end of the machine: docs/decisions/0081. */
  readonly isRelaxed: boolean;
}

/** Logs that begin without a commit in them. */
const RESTARTS_MAX = 16;
const NO_LOG: LogContent = { salts: null, frames: 0, commitsBehind: 0, pages: new Map(), databasePages: 0 };

/**
 * Compares the files of a closed database with what was answered from it: docs/decisions/0050. Returns the sums of its
 * pages, null before the first commit. Throws DamageError.
 *
 * Nothing may have the database open in this process: closing a file ends the locks that SQLite has on it.
 */
export function compareWithAnswered(directory: string, durability: Durability): PageSums | null {
  const answered = AcknowledgedRecord.read(join(directory, OPEN_FILE));
  const sums = PageSums.read(join(directory, PAGES_FILE));
  if (answered === null || sums === null)
    throw new DamageError(
      `${answered === null ? OPEN_FILE : PAGES_FILE} is damaged, and nobody can tell whether ${DATABASE_FILE} is whole`,
    );
  if (sums === undefined) {
    if (!existsSync(join(directory, INITIALISED_MARKER))) return null;
    throw new DamageError(`${PAGES_FILE} is gone, and nobody can tell whether ${DATABASE_FILE} is whole`);
  }
  const log = contentOf(join(directory, LOG_FILE), answered?.salts ?? null);
  if (answered === undefined) {
    if (log.frames > 0)
      throw new DamageError(`the daemon ended cleanly, and ${LOG_FILE} was put there since`);
  } else compareLog(log, answered, durability);
  const descriptor = openSync(join(directory, DATABASE_FILE), "r");
  try {
    const page = sums.firstWrong(descriptor, PAGE_BYTES, log.pages);
    if (page !== null)
      throw new DamageError(
        `page ${page} of ${DATABASE_FILE} is not as it was written: damaged, or of another time`,
      );
  } finally {
    closeSync(descriptor);
  }
  return sums;
}

/** Without an open database every frame of the log that was answered from must be there, unless it is in the database. */
function compareLog(log: LogContent, answered: Acknowledged, { bootId, isRelaxed }: Durability): void {
  const isSameBoot = answered.bootId === bootId;
  if (isRelaxed && !isSameBoot) return;
  if (!isSameBoot && log.commitsBehind > 1)
    throw new DamageError(`${LOG_FILE} is damaged, and commits behind the damage are whole`);
  const { salts, frames, isCopied } = answered;
  if (salts === null) return;
  const isThatLog = log.salts !== null && isSame(log.salts, salts);
  if (isCopied) {
    // SQLite would put the pages of an older log over those in the database.
    if (log.frames > 0 && !(isThatLog ? log.frames >= frames : isNext(log.salts, salts))) throw anotherLog();
  } else if (log === NO_LOG)
    throw new DamageError(`the daemon did not end cleanly and ${LOG_FILE} is gone or empty since`);
  else if (log.salts === null) throw new DamageError(`the header of ${LOG_FILE} is damaged`);
  else if (!isThatLog) throw anotherLog();
  else if (log.frames < frames)
    throw new DamageError(`${LOG_FILE} is damaged or cut: of ${frames} pages in it ${log.frames} are whole`);
}

function anotherLog(): DamageError {
  return new DamageError(
    `${LOG_FILE} is not the log that the daemon wrote, but an older one or another node's`,
  );
}

function contentOf(path: string, expected: Salts | null): LogContent {
  if (!existsSync(path)) return NO_LOG;
  const descriptor = openSync(path, "r");
  try {
    return fstatSync(descriptor).size === 0 ? NO_LOG : readLog(descriptor, PAGE_BYTES, { expected });
  } finally {
    closeSync(descriptor);
  }
}

/** SQLite counts the first up, mostly by one, with each log that it begins in a file, and draws the other. */
function isNext(salts: Salts | null, former: Salts): boolean {
  const later = salts === null ? 0 : (salts[0] - former[0]) >>> 0;
  return later > 0 && later <= RESTARTS_MAX;
}
