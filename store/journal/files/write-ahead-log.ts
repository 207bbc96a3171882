import { readSync } from "node:fs";
import { crc32 } from "node:zlib";
import { PROGRESS_PAGE, type Progress, progressOfPage } from "./progress.ts";

/** Of a log and of its frames: another pair with each log, the first one counted up (sqlite.org/walformat.html). */
export type Salts = readonly [number, number];

const MAGIC = 0x377f0682;
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
/** Read at once: the log of a busy hour has 64 MB, and none of it is needed afterwards. */
const BLOCK_FRAMES = 128;

/** What a write-ahead log has, read from its bytes: SQLite itself ends at the first wrong frame, without a word. */
export interface LogContent {
  /** null: the header is no header. */
  readonly salts: Salts | null;
  /** Frames of the commits before the first wrong frame. */
  readonly frames: number;
  /** Commits of this log that are whole but come after a wrong frame. */
  readonly commitsBehind: number;
  /** CRC-32 of the newest committed version of each page, by page number. */
  readonly pages: ReadonlyMap<number, number>;
  /** Pages of the database after the last commit. */
  readonly databasePages: number;
  /** How far the database had come with the first and with the last commit; null: there is no commit that says so. */
  readonly first: Progress | null;
  readonly last: Progress | null;
}

/** The salts in the first bytes of a log, whatever follows; null: the header is cut. */
export function readSalts(descriptor: number): Salts | null {
  const header = Buffer.alloc(HEADER_BYTES);
  if (readSync(descriptor, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return null;
  return [header.readUInt32BE(16), header.readUInt32BE(20)];
}

export function logBytes(frames: number, pageBytes: number): number {
  return HEADER_BYTES + frames * (FRAME_HEADER_BYTES + pageBytes);
}

export function readLog(descriptor: number, pageBytes: number, framesMax = Number.POSITIVE_INFINITY): LogContent {
  const header = Buffer.alloc(HEADER_BYTES);
  readSync(descriptor, header, 0, HEADER_BYTES, 0);
  const start = checksum([0, 0], wordsOf(header), 0, 6);
  const isWhole =
    header.readUInt32BE(0) === MAGIC &&
    header.readUInt32BE(8) === pageBytes &&
    isSame(start, [header.readUInt32BE(24), header.readUInt32BE(28)]);
  const salts: Salts | null = isWhole ? [header.readUInt32BE(16), header.readUInt32BE(20)] : null;
  const reader = new FrameReader(salts, isWhole ? start : null);
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  const block = Buffer.alloc(BLOCK_FRAMES * frameBytes);
  for (let first = 0; first < framesMax; first += BLOCK_FRAMES) {
    const bytes = readSync(descriptor, block, 0, block.length, HEADER_BYTES + first * frameBytes);
    const frames = Math.min(Math.floor(bytes / frameBytes), framesMax - first);
    for (let index = 0; index < frames; index += 1)
      reader.take(block.subarray(index * frameBytes, (index + 1) * frameBytes));
    if (frames < BLOCK_FRAMES) break;
  }
  return { salts, ...reader.content() };
}

class FrameReader {
  /** null: those of the first frame, as the header has none. */
  #salts: Salts | null;
  /** Up to the frame before; null: a frame was wrong, and those that follow are only compared with each other. */
  #chain: Checksum | null;
  #previous: Checksum | null = null;
  #count = 0;
  #frames = 0;
  #commitsBehind = 0;
  #databasePages = 0;
  #uncommitted: (readonly [page: number, sum: number])[] = [];
  #progress: Progress | null = null;
  #first: Progress | null = null;
  #last: Progress | null = null;
  readonly #pages = new Map<number, number>();

  constructor(salts: Salts | null, start: Checksum | null) {
    this.#salts = salts;
    this.#chain = start;
  }

  take(frame: Buffer): void {
    const databasePages = frame.readUInt32BE(4);
    const written: Checksum = [frame.readUInt32BE(16), frame.readUInt32BE(20)];
    const before = this.#chain ?? this.#previous;
    const salts: Salts = [frame.readUInt32BE(8), frame.readUInt32BE(12)];
    this.#salts ??= salts;
    const isSound = isSame(salts, this.#salts) && before !== null && isSame(sumOfFrame(before, frame), written);
    this.#count += 1;
    this.#previous = written;
    if (this.#chain === null || !isSound) {
      this.#chain = null;
      if (isSound && databasePages > 0) this.#commitsBehind += 1;
      return;
    }
    this.#chain = written;
    const number = frame.readUInt32BE(0);
    const page = frame.subarray(FRAME_HEADER_BYTES);
    this.#uncommitted.push([number, crc32(page)]);
    if (number === PROGRESS_PAGE) this.#progress = progressOfPage(page);
    if (databasePages > 0) this.#commit(databasePages);
  }

  #commit(databasePages: number): void {
    for (const [page, sum] of this.#uncommitted) this.#pages.set(page, sum);
    this.#uncommitted = [];
    this.#frames = this.#count;
    this.#databasePages = databasePages;
    this.#last = this.#progress ?? this.#last;
    this.#first ??= this.#last;
  }

  content(): Omit<LogContent, "salts"> {
    return {
      frames: this.#frames,
      commitsBehind: this.#commitsBehind,
      pages: this.#pages,
      databasePages: this.#databasePages,
      first: this.#first,
      last: this.#last,
    };
  }
}

type Checksum = readonly [number, number];

function sumOfFrame(before: Checksum, frame: Buffer): Checksum {
  const words = wordsOf(frame);
  return checksum(checksum(before, words, 0, 2), words, FRAME_HEADER_BYTES / 4, words.length);
}

/** Of pairs of words in the order of the processor that wrote them: little-endian, as all that Holdfast runs on. */
function checksum([first, second]: Checksum, words: Int32Array, from: number, to: number): Checksum {
  let one = first;
  let other = second;
  for (let at = from; at < to; at += 2) {
    one = (one + (words[at] as number) + other) | 0;
    other = (other + (words[at + 1] as number) + one) | 0;
  }
  return [one >>> 0, other >>> 0];
}

function wordsOf({ buffer, byteOffset, length }: Buffer): Int32Array {
  return new Int32Array(buffer, byteOffset, length / 4);
}

/** Of salts, or of checksums. */
export function isSame(left: Salts, right: Salts): boolean {
  return left[0] === right[0] && left[1] === right[1];
}
