import { readFileSync, readSync } from "node:fs";
import { crc32 } from "node:zlib";
import { replaceDurably } from "../../../platform/files.ts";

/** Pages read at once. */
const BLOCK_PAGES = 256;
const SUM_BYTES = 4;

/**
 * CRC-32 of each page of the database file, in a file beside it: SQLite's pages have none, and a page that comes back
 * other than it was written is an address that is given again. The last sum is that of all others.
 */
export class PageSums {
  readonly #path: string;
  #sums: Uint32Array;

  private constructor(path: string, sums: Uint32Array) {
    this.#path = path;
    this.#sums = sums;
  }

  /** Of a database as it is: nothing was answered from it yet. */
  static of(path: string, descriptor: number, pageBytes: number): PageSums {
    const pages = new Map<number, number>();
    const page = Buffer.alloc(pageBytes);
    while (readSync(descriptor, page, 0, pageBytes, pages.size * pageBytes) === pageBytes)
      pages.set(pages.size + 1, crc32(page));
    const sums = new PageSums(path, new Uint32Array());
    sums.write(pages, pages.size);
    return sums;
  }

  /** undefined: there is no such file; null: it is damaged. */
  static read(path: string): PageSums | null | undefined {
    let bytes: Buffer;
    try {
      bytes = readFileSync(path);
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return undefined;
      throw error;
    }
    const end = bytes.length - SUM_BYTES;
    if (end < 0 || end % SUM_BYTES !== 0 || crc32(bytes.subarray(0, end)) !== bytes.readUInt32LE(end))
      return null;
    const sums = Uint32Array.from({ length: end / SUM_BYTES }, (_, index) =>
      bytes.readUInt32LE(index * SUM_BYTES),
    );
    return new PageSums(path, sums);
  }

  /**
   * The first page of the file that is not as it was written; null: there is none. `elsewhere`: pages whose newest
   * version is in the log, and may be half copied here.
   */
  firstWrong(descriptor: number, pageBytes: number, elsewhere: ReadonlyMap<number, number>): number | null {
    const block = Buffer.alloc(BLOCK_PAGES * pageBytes);
    for (let first = 0; first < this.#sums.length; first += BLOCK_PAGES) {
      const length = readSync(descriptor, block, 0, block.length, first * pageBytes);
      const pages = Math.min(BLOCK_PAGES, this.#sums.length - first);
      for (let index = 0; index < pages; index += 1) {
        const end = (index + 1) * pageBytes;
        const isAsWritten =
          end <= length && crc32(block.subarray(end - pageBytes, end)) === this.#sums[first + index];
        if (!isAsWritten && !elsewhere.has(first + index + 1)) return first + index + 1;
      }
    }
    return null;
  }

  /** Takes the sums of pages that are about to be copied into a file of so many pages, and waits for the disk. */
  write(pages: ReadonlyMap<number, number>, databasePages: number): void {
    const sums = new Uint32Array(databasePages);
    sums.set(this.#sums.subarray(0, databasePages));
    for (const [page, sum] of pages) if (page <= databasePages) sums[page - 1] = sum;
    const bytes = Buffer.alloc((sums.length + 1) * SUM_BYTES);
    for (const [index, sum] of sums.entries()) bytes.writeUInt32LE(sum, index * SUM_BYTES);
    bytes.writeUInt32LE(crc32(bytes.subarray(0, -SUM_BYTES)), bytes.length - SUM_BYTES);
    replaceDurably(this.#path, bytes);
    this.#sums = sums;
  }
}
