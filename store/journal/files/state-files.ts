import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { syncDirectory } from "../../../platform/files.ts";
import { type Clock, isoTimeMs } from "../../../platform/time.ts";
import type { BootRecord } from "./boot-record.ts";

export const DATABASE_FILE = "holdfast.db";
export const LOG_FILE = `${DATABASE_FILE}-wal`;
/** Checksums of the database's pages. */
export const PAGES_FILE = "holdfast.pages";
/** There while the database is open: what was answered from it. */
export const OPEN_FILE = "holdfast.open";
/** Locked by the daemon that has the directory; it has no content. */
export const LOCK_FILE = "holdfast.lock";
/** Exists while the daemon waits for a rebuild: an empty database must never be taken for the truth. */
export const REBUILD_MARKER = "rebuild-required";
/** Exists from the first start on: from then on a missing or empty database is a loss, not a first start. */
export const INITIALISED_MARKER = "holdfast.initialised";
/** All of the state directory, with backups, what was put aside, and what a file system has at its root. */
const OURS = /^(holdfast[.-].*|rebuild-required|reserve|spool|lost\+found)$/;

/** The database cannot be trusted; it has been put aside and the operator must choose how to go on. */
export class RebuildRequiredError extends Error {}

/** Whether a name in a state directory is one that Holdfast or the file system makes there. */
export function isOfState(name: string): boolean {
  return OURS.test(name);
}

/** Renames the database and its log, and makes every later start wait for the operator. Returns the error to throw. */
export function putAside(directory: string, why: string, clock: Clock): RebuildRequiredError {
  writeMarker(directory, REBUILD_MARKER);
  const kept = renameAside(directory, "damaged", clock);
  return new RebuildRequiredError(
    `the state database of ${directory} is damaged (${why}); ${kept.length > 0 ? `it was kept as ${kept.join(" and ")}` : "nothing of it is left"}`,
  );
}

/**
 * Puts the files of a database under other names. Returns those of the database and its log: of use to an operator, as what
 * was written down about a sound one is not.
 */
export function renameAside(directory: string, why: "damaged" | "replaced", clock: Clock): string[] {
  const suffix = `.${why}-${isoTimeMs(clock.wallMs()).replaceAll(/[:.]/g, "-")}`;
  const found = [DATABASE_FILE, LOG_FILE, PAGES_FILE, OPEN_FILE].filter((name) =>
    existsSync(join(directory, name)),
  );
  const isKept = (name: string) => name.startsWith(DATABASE_FILE);
  for (const name of found) {
    if (why === "replaced" && !isKept(name)) rmSync(join(directory, name));
    else renameSync(join(directory, name), join(directory, name + suffix));
  }
  syncDirectory(directory);
  return found.filter(isKept).map((name) => name + suffix);
}

/** Puts a new database in place (`source`, or none for an empty one) and lets the next openDatabase succeed. */
export function acceptRebuild(directory: string, source: string | null, boot: BootRecord | null): void {
  expectMarker(directory);
  if (source !== null) renameSync(source, join(directory, DATABASE_FILE));
  forgetWhatWas(directory);
  boot?.forget();
  removeMarker(directory, REBUILD_MARKER);
}

/** Throws where another daemon has come first. */
export function expectMarker(directory: string): void {
  if (!existsSync(join(directory, REBUILD_MARKER)))
    throw new Error(`state directory ${directory} has been rebuilt by another daemon meanwhile`);
}

/** What is in the directory now counts: as at a first start, it is compared with nothing. */
export function forgetWhatWas(directory: string): void {
  for (const name of [OPEN_FILE, PAGES_FILE, INITIALISED_MARKER])
    rmSync(join(directory, name), { force: true });
  syncDirectory(directory);
}

export function writeMarker(directory: string, name: string): void {
  const fd = openSync(join(directory, name), "w", 0o600);
  fsyncSync(fd);
  closeSync(fd);
  syncDirectory(directory);
}

function removeMarker(directory: string, name: string): void {
  rmSync(join(directory, name), { force: true });
  syncDirectory(directory);
}

/** 0 also when there is no such file. */
export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
