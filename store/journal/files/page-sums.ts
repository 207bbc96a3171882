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
  readonly #sums: Uint32Array;
  readonly sum: number;

  private constructor(path: string, sums: Uint32Array) {
    this.#path = path;
    this.#sums = sums;
    this.sum = crc32(this.#bytes());
  }

  /** Of a database file as it is; not written yet. */
  static of(path: string, descriptor: number, pageBytes: number): PageSums {
    const sums: number[] = [];
    const page = Buffer.alloc(pageBytes);
    while (readSync(descriptor, page, 0, pageBytes, sums.length * pageBytes) === pageBytes) sums.push(crc32(page));
    return new PageSums(path, Uint32Array.from(sums));
  }

  /** null: there is no such file, or it is damaged. */
  static read(path: string): PageSums | null {
    let bytes: Buffer;
    try {
      bytes = readFileSync(path);
    } catch {
      return null;
    }
    const end = bytes.length - SUM_BYTES;
    if (end < 0 || end % SUM_BYTES !== 0 || crc32(bytes.subarray(0, end)) !== bytes.readUInt32LE(end)) return null;
    const sums = Uint32Array.from({ length: end / SUM_BYTES }, (_, index) => bytes.readUInt32LE(index * SUM_BYTES));
    return new PageSums(path, sums);
  }

  /** The first page not as written; null: none. `elsewhere`: pages newest in the log, and perhaps half copied here. */
  firstWrong(descriptor: number, pageBytes: number, elsewhere: ReadonlyMap<number, number>): number | null {
    const block = Buffer.alloc(BLOCK_PAGES * pageBytes);
    for (let first = 0; first < this.#sums.length; first += BLOCK_PAGES) {
      const length = readSync(descriptor, block, 0, block.length, first * pageBytes);
      const pages = Math.min(BLOCK_PAGES, this.#sums.length - first);
      for (let index = 0; index < pages; index += 1) {
        const end = (index + 1) * pageBytes;
        const isAsWritten = end <= length && crc32(block.subarray(end - pageBytes, end)) === this.#sums[first + index];
        if (!isAsWritten && !elsewhere.has(first + index + 1)) return first + index + 1;
      }
    }
    return null;
  }

  /** Those of the file after pages of these sums have been copied into it, and it has so many pages. */
  after(pages: ReadonlyMap<number, number>, databasePages: number): PageSums {
    const sums = new Uint32Array(databasePages);
    sums.set(this.#sums.subarray(0, databasePages));
    for (const [page, sum] of pages) if (page <= databasePages) sums[page - 1] = sum;
    return new PageSums(this.#path, sums);
  }

  /** Waits for the disk. */
  write(): void {
    const sum = Buffer.alloc(SUM_BYTES);
    sum.writeUInt32LE(this.sum);
    replaceDurably(this.#path, Buffer.concat([this.#bytes(), sum]));
  }

  #bytes(): Buffer {
    const bytes = Buffer.alloc(this.#sums.length * SUM_BYTES);
    for (const [index, sum] of this.#sums.entries()) bytes.writeUInt32LE(sum, index * SUM_BYTES);
    return bytes;
  }
}
