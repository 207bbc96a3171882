import { closeSync, fsyncSync, ftruncateSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";

/**
 * Room kept on the disk so that releases can still be written when it is full. Bringing a whole write-ahead log (40 MB at most)
 * into the database was seen to let that grow by 4 MB; the rest is for a few thousand DELs.
 */
const RESERVE_BYTES = 8 * 1024 * 1024;
/** Room there must be to take the reserve again: with no more than the reserve itself, the next ADD would find the disk full again. */
const ROOM_BYTES_MIN = 2 * RESERVE_BYTES;

/** ENOSPC, as SQLite or as Node tells it. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "SQLITE_FULL" || code === "ENOSPC";
}

/**
 * A file that takes up space on purpose. When the disk is full it is deleted, ADDs are refused and DELs go on with the
 * room it leaves; when there is space again it is written anew and ADDs are served.
 */
export class DiskReserve {
  readonly #path: string;
  #kept: boolean;

  constructor(folder: string) {
    this.#path = join(folder, "reserve");
    this.#kept = this.#isThere() || this.restore();
  }

  /** Whether the disk had room when last tried. */
  get kept(): boolean {
    return this.#kept;
  }

  spend(): void {
    rmSync(this.#path, { force: true });
    this.#kept = false;
  }

  /** Tries to take the space again. False: the disk is still too full. */
  restore(): boolean {
    try {
      const fd = openSync(this.#path, "w", 0o600);
      try {
        const block = Buffer.alloc(64 * 1024);
        for (let written = 0; written < ROOM_BYTES_MIN; written += block.length) writeSync(fd, block);
        fsyncSync(fd);
        ftruncateSync(fd, RESERVE_BYTES);
      } finally {
        closeSync(fd);
      }
      this.#kept = true;
    } catch {
      rmSync(this.#path, { force: true });
      this.#kept = false;
    }
    return this.#kept;
  }

  /** Whole: a crash may have left a part of it. */
  #isThere(): boolean {
    return (statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0) >= RESERVE_BYTES;
  }
}
