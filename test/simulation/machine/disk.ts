import {
  closeSync,
  copyFileSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { Chance } from "../engine/chance.ts";
import { SPOOL } from "./settings.ts";

const DATABASE = "holdfast.db";
const LOG = `${DATABASE}-wal`;
/** Only takes up space, so it is made of nothing here. */
const RESERVE = "reserve";
const RESERVE_BYTES = 8 * 1024 * 1024;
/** Of which the deletion may be undone by lost power. */
const SPOOLED_KEPT = 10;
/** The header of SQLite's log; the frames behind it may be lost with the power. */
const LOG_HEADER_BYTES = 32;

/**
 * A machine's disk: the directory that its daemon has now, and backups of it. A process that was killed keeps its own
 * directory, which nobody reads any more; its successor gets a copy as of that instant.
 */
export class Disk {
  /** On the real machine. Nothing of it gets into the story. */
  readonly root: string;
  #number = 0;
  #state: string;
  #hasBackup = false;
  #isDamaged = false;
  /** Bytes of SQLite's log that are surely on the disk. */
  #syncedLogBytes = 0;
  /** Files of the spool whose deletion may not be on the disk yet. */
  readonly #spooled = new Map<string, string>();

  /** `root`: a directory of its own. */
  constructor(root: string) {
    this.root = root;
    this.#state = this.#newDirectory();
  }

  /** The state directory that is in use, or would be. */
  get state(): string {
    return this.#state;
  }

  /** A directory for whatever a person keeps; power loss and replaced disks do not change it. */
  get backupDirectory(): string {
    const path = join(this.root, "kept");
    mkdirSync(path, { recursive: true });
    return path;
  }

  /**
   * What is written from now on is another directory's; returns the one of before, which somebody may still write to.
   */
  fork(): string {
    const before = this.#state;
    this.#state = this.#newDirectory();
    copyDirectory(before, this.#state);
    return before;
  }

  /** A database has just been opened: everything of it is synced. */
  noteOpened(): void {
    this.#isDamaged = false;
    this.noteSynced();
  }

  /** What is in the log now survives a power failure. */
  noteSynced(): void {
    this.#syncedLogBytes = sizeOf(join(this.#state, LOG));
  }

  /** Power is lost. Returns the directory of before. */
  loseUnsynced(chance: Chance): string {
    const before = this.fork();
    const log = join(this.#state, LOG);
    const bytes = sizeOf(log);
    const kept = Math.max(LOG_HEADER_BYTES, Math.min(this.#syncedLogBytes, bytes));
    if (bytes > kept && chance.happens(0.8)) truncateSync(log, chance.between(kept, bytes));
    const spool = join(this.#state, SPOOL);
    for (const [name, body] of this.#spooled)
      if (chance.happens(0.5)) {
        mkdirSync(spool, { recursive: true });
        writeFileSync(join(spool, name), body);
      }
    this.#spooled.clear();
    return before;
  }

  /** The run directory of the daemon, which a reboot empties. */
  get run(): string {
    const path = join(this.root, "run");
    mkdirSync(path, { recursive: true });
    return path;
  }

  emptyRun(): void {
    rmSync(join(this.root, "run"), { recursive: true, force: true });
  }

  get hasBackup(): boolean {
    return this.#hasBackup;
  }

  backUp(): void {
    const backup = join(this.root, "backup");
    rmSync(backup, { recursive: true, force: true });
    copyDirectory(this.#state, backup);
    this.#hasBackup = true;
  }

  /** The disk of the backup instead of this one; false: there is none. Nobody may be writing. */
  restoreBackup(): boolean {
    if (!this.#hasBackup) return false;
    this.#replaceWith(join(this.root, "backup"));
    return true;
  }

  /** An empty disk. Nobody may be writing. */
  lose(): void {
    const before = this.#state;
    this.#state = this.#newDirectory();
    rmSync(before, { recursive: true, force: true });
  }

  /** The content of another machine's disk instead of this one's. Nobody may be writing. */
  clone(other: Disk): void {
    this.#replaceWith(other.state);
  }

  /** Whether no daemon has opened it since it was damaged: only then is all of it looked at. */
  get isDamaged(): boolean {
    return this.#isDamaged;
  }

  /** Some bytes in the middle of the database change. false: there is none. */
  damage(chance: Chance): boolean {
    const file = join(this.#state, DATABASE);
    const pages = Math.floor(sizeOf(file) / 4_096);
    if (pages < 2) return false;
    const fd = openSync(file, "r+");
    // A page header: what is behind the last row of a page is read by nobody.
    writeSync(fd, Buffer.alloc(64, 0x5a), 0, 64, chance.between(1, pages - 1) * 4_096);
    closeSync(fd);
    this.#isDamaged = true;
    return true;
  }

  /** Writes a request that could not be delivered, as the plugin binary does. */
  spool(bootUs: number, number: number, body: string): void {
    const directory = join(this.#state, SPOOL);
    mkdirSync(directory, { recursive: true });
    const name = `${`${bootUs}`.padStart(20, "0")}-${number}-0.json`;
    writeFileSync(join(directory, name), body);
    this.#spooled.set(name, body);
    for (const oldest of this.#spooled.keys()) if (this.#spooled.size > SPOOLED_KEPT) this.#spooled.delete(oldest);
  }

  #replaceWith(source: string): void {
    const before = this.#state;
    this.#state = this.#newDirectory();
    copyDirectory(source, this.#state);
    rmSync(before, { recursive: true, force: true });
  }

  #newDirectory(): string {
    this.#number += 1;
    const path = join(this.root, `${this.#number}`);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    makeReserve(path);
    return path;
  }
}

function makeReserve(directory: string): void {
  const fd = openSync(join(directory, RESERVE), "w", 0o600);
  ftruncateSync(fd, RESERVE_BYTES);
  closeSync(fd);
}

/** Files and directories; the reserve is as it was, there or not. */
function copyDirectory(from: string, to: string): void {
  mkdirSync(to, { recursive: true, mode: 0o700 });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) copyDirectory(source, target);
    else if (entry.name !== RESERVE) copyFileSync(source, target);
    else if (statSync(source).size >= RESERVE_BYTES) makeReserve(to);
  }
  if (!existsSync(join(from, RESERVE))) rmSync(join(to, RESERVE), { force: true });
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
