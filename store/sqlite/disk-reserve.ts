import { closeSync, existsSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

/** Room kept on the disk so that releases can still be written when it is full: a few thousand DELs. */
const RESERVE_BYTES = 4 * 1024 * 1024;

/**
 * A file that takes up space on purpose. When the disk is full it is deleted, ADDs are refused and DELs go on with the
 * room it leaves; when there is space again it is written anew and ADDs are served.
 */
export class DiskReserve {
  readonly #path: string;
  #kept: boolean;

  constructor(folder: string) {
    this.#path = join(folder, "reserve");
    this.#kept = existsSync(this.#path) || this.restore();
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
        for (let written = 0; written < RESERVE_BYTES; written += block.length) writeSync(fd, block);
        fsyncSync(fd);
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
}
