import { closeSync, fsyncSync, ftruncateSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";

/**
 * Space kept on the disk so that releases can still be written when it is full. Copying a whole write-ahead log (40 MB
 * at most) into the database was measured to grow it by 4 MB; the rest is for a few thousand DELs.
 */
const RESERVE_BYTES = 8 * 1024 * 1024;
/** Free space required to take the reserve again: with the reserve alone, the next ADD would fill the disk again. */
const ROOM_BYTES_MIN = 2 * RESERVE_BYTES;

/** ENOSPC, as reported by SQLite or Node. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "SQLITE_FULL" || code === "ENOSPC";
}

/** Only takes up space. On a full disk it is deleted: ADDs are refused, DELs go on, until it can be written again. */
export class DiskReserve {
  readonly #path: string;
  #kept: boolean;

  constructor(directory: string) {
    this.#path = join(directory, "reserve");
    this.#kept = this.#isThere() || this.restore();
  }

  get kept(): boolean {
    return this.#kept;
  }

  spend(): void {
    rmSync(this.#path, { force: true });
    this.#kept = false;
  }

  /** Tries to take the space again. Returns false when the disk is still too full. */
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

  /** Whether the file is complete: a crash may have left a part of it. */
  #isThere(): boolean {
    return (statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0) >= RESERVE_BYTES;
  }
}
