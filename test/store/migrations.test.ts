import Database from "better-sqlite3";
import { afterEach, expect, test } from "vitest";
import { migrate, SCHEMA_VERSION } from "../../store/journal/migrations.ts";

/*
 * A released schema is never edited: what a daemon has written with it is read by every later release. Each release
 * that changes the schema adds a line here, with the statements of a database that the release before it left
 * (`.dump`). Until the first release there is the present schema alone.
 */

interface Left {
  readonly version: number;
  /** Brings an empty database to the state that a daemon of that version has left. */
  readonly write: (db: Database.Database) => void;
}

const RELEASED: readonly Left[] = [
  {
    version: 1,
    write: (db) => {
      migrate(db);
      db.exec("INSERT INTO networks (id, name, runtime_config) VALUES (1, 'blue', '{}')");
    },
  },
];

const opened: Database.Database[] = [];
afterEach(() => {
  for (const db of opened.splice(0)) db.close();
});

function database(): Database.Database {
  const db = new Database(":memory:");
  opened.push(db);
  db.pragma("foreign_keys = ON");
  return db;
}

/** Columns of every table, and every index. */
function schemaOf(db: Database.Database): unknown {
  const names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").pluck().all();
  return names.map((name) => [name, db.pragma(`table_info(${name})`), db.pragma(`index_list(${name})`)]);
}

test.each(RELEASED)(
  "a database of schema version $version has the present schema and its rows",
  ({ version, write }) => {
    const db = database();
    write(db);
    expect(db.pragma("user_version", { simple: true })).toBe(version);
    migrate(db);
    const fresh = database();
    migrate(fresh);
    expect(db.pragma("user_version", { simple: true })).toBe(SCHEMA_VERSION);
    expect(schemaOf(db)).toEqual(schemaOf(fresh));
    expect(db.prepare("SELECT name, runtime_config FROM networks").all()).toEqual([
      { name: "blue", runtime_config: "{}" },
    ]);
    expect([db.pragma("integrity_check"), db.pragma("foreign_key_check")]).toEqual([[{ integrity_check: "ok" }], []]);
  },
);

test("a database of an unknown schema version is refused and left as it is", () => {
  const db = database();
  db.pragma("user_version = 999");
  expect(() => migrate(db)).toThrow(
    `the state database has schema version 999, this release knows ${SCHEMA_VERSION}: install the release that wrote it`,
  );
  expect(schemaOf(db)).toEqual([]);
});
