import type Database from "better-sqlite3";

export interface Progress {
  /** Of the database: 32 hexadecimal digits. A rebuilt one gets another. */
  readonly id: string;
  /** Commits since it was created; each has this row in it. */
  readonly commits: number;
}

const ID_BYTES = 16;
const COMMITS_BYTES = 8;

/** The first table of the schema, so that its one page is always page 2: `progressOfPage` reads it without SQLite. */
export const PROGRESS_SCHEMA = `
  CREATE TABLE progress (
    id BLOB NOT NULL CHECK (length(id) = ${ID_BYTES}),
    commits BLOB NOT NULL CHECK (length(commits) = ${COMMITS_BYTES})
  ) STRICT;`;
/** Number of the page of that table; pages count from 1. */
export const PROGRESS_PAGE = 2;

/** A page of a table without pages below it, with one row of two such BLOBs (sqlite.org/fileformat2.html). */
const LEAF_PAGE = 0x0d;
const ROW_HEADER = Buffer.from([3 + ID_BYTES + COMMITS_BYTES, 1, 3, 12 + 2 * ID_BYTES, 12 + 2 * COMMITS_BYTES]);

/** From the bytes of the page; null: it is another page, or damaged. */
export function progressOfPage(page: Buffer): Progress | null {
  if (page.length < 10 || page[0] !== LEAF_PAGE || page.readUInt16BE(3) !== 1) return null;
  const row = page.readUInt16BE(8);
  const values = row + ROW_HEADER.length;
  if (values + ID_BYTES + COMMITS_BYTES > page.length || !page.subarray(row, values).equals(ROW_HEADER)) return null;
  const commits = page.readBigUInt64BE(values + ID_BYTES);
  return { id: page.toString("hex", values, values + ID_BYTES), commits: Number(commits) };
}

/** Writes the row in transactions of a database that has one for each of its commits. */
export class ProgressRow {
  readonly #db: Database.Database;
  #update: Database.Statement<[Buffer]> | null = null;

  constructor(db: Database.Database) {
    this.#db = db;
  }

  /** Replaces whatever progress the database has, in a transaction of its own. */
  begin({ id, commits }: Progress): void {
    this.#db.transaction(() => {
      this.#db.exec("DELETE FROM progress");
      this.#db.prepare("INSERT INTO progress VALUES (?, ?)").run(Buffer.from(id, "hex"), bytesOf(commits));
    })();
  }

  get commits(): number {
    const bytes = this.#db.prepare<[], Buffer>("SELECT commits FROM progress").pluck().get();
    if (bytes === undefined) throw new Error("it does not say how many commits it has");
    return Number(bytes.readBigUInt64BE());
  }

  write(commits: number): void {
    this.#update ??= this.#db.prepare("UPDATE progress SET commits = ?");
    this.#update.run(bytesOf(commits));
  }
}

function bytesOf(commits: number): Buffer {
  const bytes = Buffer.alloc(COMMITS_BYTES);
  bytes.writeBigUInt64BE(BigInt(commits));
  return bytes;
}
