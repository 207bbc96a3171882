import { closeSync, fdatasync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { crc32 } from "node:zlib";
import { replaceDurably } from "../../../platform/files.ts";
import type { Salts } from "./write-ahead-log.ts";

/** A disk writes a sector or leaves it. */
const RECORD_BYTES = 512;

/** What has been answered: a start that finds less has lost something. */
export interface Acknowledged {
  readonly bootId: string;
  /** The log that the latest commits were written to; null: whichever begins next, as nothing is answered from it yet. */
  readonly salts: Salts | null;
  /** Frames of that log. */
  readonly frames: number;
  /** All of them are in the database file, too. */
  readonly isCopied: boolean;
  /** Which opening of the database these are of; one that is not counted in it yet has copied everything before it began. */
  readonly opened: number;
  /** Commits since then. */
  readonly commits: number;
}

/**
 * The file that is there while the database is open. It is written with each commit and reaches the disk a second later at the
 * most: it outlives the end of the process exactly, and the end of the machine but for that second.
 */
export class AcknowledgedRecord {
  readonly #path: string;
  readonly #descriptor: number;
  #isOnDisk = true;

  private constructor(path: string) {
    this.#path = path;
    this.#descriptor = openSync(path, "r+");
  }

  static begin(path: string, first: Acknowledged): AcknowledgedRecord {
    replaceDurably(path, bytesOf(first));
    return new AcknowledgedRecord(path);
  }

  /** undefined: the database was closed; null: the record is damaged. */
  static read(path: string): Acknowledged | null | undefined {
    let text: string;
    try {
      text = readFileSync(path, "latin1").trimEnd();
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return undefined;
      throw error;
    }
    const at = text.lastIndexOf(" ");
    const json = text.slice(0, at);
    return at > 0 && text.slice(at + 1) === sumOf(json) ? (JSON.parse(json) as Acknowledged) : null;
  }

  write(now: Acknowledged): void {
    writeSync(this.#descriptor, bytesOf(now), 0, RECORD_BYTES, 0);
    this.#isOnDisk = false;
  }

  syncNow(): void {
    fdatasyncSync(this.#descriptor);
    this.#isOnDisk = true;
  }

  /** Does not wait: the next one tells of what failed. */
  syncSoon(): void {
    if (this.#isOnDisk) return;
    this.#isOnDisk = true;
    fdatasync(this.#descriptor, (error) => {
      if (error) this.#isOnDisk = false;
    });
  }

  /** `isKept`: the next start has to look at what is there. */
  close({ isKept }: { readonly isKept: boolean }): void {
    closeSync(this.#descriptor);
    if (!isKept) rmSync(this.#path, { force: true });
  }
}

function bytesOf(acknowledged: Acknowledged): Buffer {
  const json = JSON.stringify(acknowledged);
  return Buffer.from(`${json} ${sumOf(json)}`.padEnd(RECORD_BYTES - 1).concat("\n"), "latin1");
}

function sumOf(json: string): string {
  return crc32(json).toString(16);
}
