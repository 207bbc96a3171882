import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  mkdirSync,
  openSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { readBounded, replaceDurably, syncDirectory } from "../../../platform/files.ts";
import type { StoreLog } from "../../node-context.ts";
import type { Progress } from "./progress.ts";
import { ANSWERED_FILES, PAGES_FILE } from "./state-files.ts";

/** A disk writes a sector or leaves it. */
const RECORD_BYTES = 512;

/** What was answered from a database, and what its file had when its log was last copied into it. */
export interface Note extends Progress {
  /** Commits that are in the database file itself. */
  readonly copied: number;
  /** CRC-32 of the sums of the file's pages; null: not known, so only SQLite's own check tells whether it is sound. */
  readonly sums: number | null;
}

interface Written extends Note {
  readonly bootId: string;
  /** Of the path: what a boot knows is of one state directory. */
  readonly directory: string;
}

export interface LatestNote extends Note {
  readonly isOfThisBoot: boolean;
  /** Another sound note is of another database, and nothing says which of them was here. */
  readonly isContested: boolean;
  /** The file outside of the state directory, if that alone has come so far; null: the directory's notes say so. */
  readonly rememberedBy: string | null;
}

/**
 * What was answered, in three copies: two files of the state directory, and one outside of it that lives no longer than
 * the boot, as containers do. They are written with each commit, after SQLite's sync and before any answer, and those
 * of the directory reach the disk a second later at the most: they outlive the end of the process exactly, and that of
 * the machine but for that second. A database is believed if it has come as far as the newest of them says. See
 * docs/decisions/0050.
 */
export class Notes {
  readonly #directory: string;
  readonly #bootRecord: string | null;
  readonly #bootId: string;
  readonly #log: StoreLog;
  readonly #directoryKey: string;
  #descriptors: number[] = [];
  #bootDescriptor: number | null = null;
  #isOnDisk = true;
  #isFailureLogged = false;

  /** `bootRecord`: the file outside of the directory; null: none. */
  constructor(
    directory: string,
    {
      bootRecord,
      bootId,
      log,
    }: { readonly bootRecord: string | null; readonly bootId: string; readonly log: StoreLog },
  ) {
    this.#directory = directory;
    this.#bootRecord = bootRecord;
    this.#bootId = bootId;
    this.#log = log;
    this.#directoryKey = createHash("sha256").update(directory).digest("hex").slice(0, 16);
  }

  /** Whether the state directory has notes at all, sound or not. */
  get areThere(): boolean {
    return this.#paths.some((path) => existsSync(path));
  }

  /** null: there is no sound one. */
  latest(): LatestNote | null {
    const own = this.#paths.map(read).filter((note) => note !== null);
    const remembered = this.#bootRecord === null ? null : read(this.#bootRecord);
    const isOurs = remembered?.bootId === this.#bootId && remembered.directory === this.#directoryKey;
    // What is outside of the directory was not put there with it: it says which database this is.
    const notes = isOurs ? [...own.filter(({ id }) => id === remembered.id), remembered] : own;
    let latest: Written | null = null;
    for (const note of notes) if (latest === null || isNewer(note, latest)) latest = note;
    if (latest === null) return null;
    const { id, bootId } = latest;
    const isContested = notes.some((note) => note.id !== id);
    const rememberedBy = own.includes(latest) ? null : this.#bootRecord;
    return { ...latest, isOfThisBoot: bootId === this.#bootId, isContested, rememberedBy };
  }

  /** Writes all of them, whatever is there, and waits for the disk. */
  begin(note: Note): void {
    this.close();
    const bytes = this.#bytesOf(note);
    for (const path of this.#paths)
      if (statSync(path, { throwIfNoEntry: false })?.size !== RECORD_BYTES) replaceDurably(path, bytes);
    this.#descriptors = this.#paths.map((path) => openSync(path, "r+"));
    this.write(note);
    this.syncNow();
  }

  write(note: Note): void {
    const bytes = this.#bytesOf(note);
    this.#isOnDisk = false;
    this.#remember(bytes);
    let fault: unknown = null;
    for (const descriptor of this.#descriptors)
      try {
        writeSync(descriptor, bytes, 0, RECORD_BYTES, 0);
      } catch (error) {
        fault = error;
      }
    if (fault !== null) throw fault;
  }

  syncNow(): void {
    for (const descriptor of this.#descriptors) fdatasyncSync(descriptor);
    this.#isOnDisk = true;
  }

  /** Does not wait: the next one reports what failed. */
  syncSoon(): void {
    if (this.#isOnDisk) return;
    this.#isOnDisk = true;
    for (const descriptor of this.#descriptors)
      fdatasync(descriptor, (error) => {
        if (error) this.#isOnDisk = false;
      });
  }

  /** Others are about to write the database file: it is compared with no sums until it is opened again. */
  forgetSums(): void {
    this.close();
    rmSync(join(this.#directory, PAGES_FILE), { force: true });
    for (const path of this.#bootRecord === null ? this.#paths : [...this.#paths, this.#bootRecord]) {
      const note = read(path);
      if (note !== null) overwrite(path, bytesOf({ ...note, sums: null }));
    }
  }

  /** An operator decided what the state is from now on; null: it is empty. */
  restart(progress: Progress | null): void {
    this.close();
    if (this.#bootRecord !== null) rmSync(this.#bootRecord, { force: true, recursive: true });
    rmSync(join(this.#directory, PAGES_FILE), { force: true });
    if (progress === null) for (const path of this.#paths) rmSync(path, { force: true });
    else this.begin({ ...progress, copied: progress.commits, sums: null });
    syncDirectory(this.#directory);
  }

  close(): void {
    for (const descriptor of this.#descriptors.splice(0)) closeSync(descriptor);
    if (this.#bootDescriptor !== null) closeSync(this.#bootDescriptor);
    this.#bootDescriptor = null;
  }

  /** A copy that stays behind notices less, and is no reason to refuse anything. */
  #remember(bytes: Buffer): void {
    if (this.#bootRecord === null) return;
    try {
      this.#bootDescriptor ??= openRecord(this.#bootRecord);
      writeSync(this.#bootDescriptor, bytes, 0, RECORD_BYTES, 0);
      this.#isFailureLogged = false;
    } catch (error) {
      if (this.#isFailureLogged) return;
      this.#isFailureLogged = true;
      this.#log.error(
        `${this.#bootRecord} cannot be written (${(error as Error).message}): a state directory that is removed or replaced by an older one will not be noticed by the next start; make room, or let the daemon write there`,
      );
    }
  }

  #bytesOf({ id, commits, copied, sums }: Note): Buffer {
    return bytesOf({ id, commits, copied, sums, bootId: this.#bootId, directory: this.#directoryKey });
  }

  get #paths(): readonly string[] {
    return ANSWERED_FILES.map((name) => join(this.#directory, name));
  }
}

function isNewer(one: Note, other: Note): boolean {
  return one.commits > other.commits || (one.commits === other.commits && one.copied > other.copied);
}

/** Before the socket is served, which makes its directory. */
function openRecord(path: string): number {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  return openSync(path, "w", 0o600);
}

/** null: there is none, or it is damaged. */
function read(path: string): Written | null {
  let text: string;
  try {
    text = readBounded(path, RECORD_BYTES).toString("latin1").trimEnd();
  } catch {
    return null;
  }
  const at = text.lastIndexOf(" ");
  const json = text.slice(0, at);
  return at > 0 && text.slice(at + 1) === sumOf(json) ? (JSON.parse(json) as Written) : null;
}

function bytesOf(written: Written): Buffer {
  const json = JSON.stringify(written);
  return Buffer.from(`${json} ${sumOf(json)}`.padEnd(RECORD_BYTES - 1).concat("\n"), "latin1");
}

function overwrite(path: string, bytes: Buffer): void {
  const descriptor = openSync(path, "r+");
  try {
    writeSync(descriptor, bytes, 0, bytes.length, 0);
    fdatasyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function sumOf(json: string): string {
  return crc32(json).toString(16);
}
