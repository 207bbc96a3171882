/**
 * Whatever is read from a database that was damaged a moment ago: the answer names the database, and no fault of ours.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, expect, test } from "vitest";
import { refusalOf } from "../../store/refusal-of.ts";

const root = mkdtempSync(join(tmpdir(), "holdfast-damaged-reads-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const ROWS = 5_000;

/** A database of many pages, of which SQLite keeps few in memory. */
function opened(name: string): { file: string; db: Database.Database } {
  const file = join(root, name);
  const db = new Database(file);
  db.pragma("cache_size = 5");
  db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT); CREATE INDEX i ON t (text)");
  const insert = db.prepare("INSERT INTO t (text) VALUES (?)");
  db.transaction(() => {
    for (let row = 0; row < ROWS; row += 1) insert.run(`${row}`.repeat(10));
  })();
  return { file, db };
}

test.each<[string, (bytes: Buffer) => Buffer]>([
  ["all but its first page overwritten", (bytes) => bytes.fill(0x5a, 4_096)],
  ["all of it overwritten", (bytes) => bytes.fill(0x5a)],
  ["cut in the middle of a page", (bytes) => bytes.subarray(0, 10_000)],
])("a file with %s", (name, damage) => {
  const { file, db } = opened(name);
  writeFileSync(file, damage(readFileSync(file)), { flag: name.startsWith("cut") ? "w" : "r+" });
  const reads = ["SELECT * FROM t", "SELECT * FROM t WHERE id = 4321", "SELECT count(*) FROM t INDEXED BY i"];
  const errors = reads.flatMap((sql) => {
    try {
      db.prepare(sql).all();
      return [];
    } catch (error) {
      return [error];
    }
  });
  expect(errors.length).toBeGreaterThan(0);
  for (const error of errors) {
    const { code, message } = refusalOf(error);
    expect(code).toBe("NOT_READY");
    expect(message).toMatch(/the state database cannot be read: (database disk image is malformed|file is not)/);
  }
  db.close();
});

test("what SQLite says of a statement of ours is a fault of ours", () => {
  const { db } = opened("sound");
  let thrown: unknown;
  try {
    db.prepare("INSERT INTO t (id) VALUES (1)").run();
  } catch (error) {
    thrown = error;
  }
  expect(refusalOf(thrown).code).toBe("INTERNAL_ERROR");
  db.close();
});
