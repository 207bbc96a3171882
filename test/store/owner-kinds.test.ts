import { readFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, describe, expect, test } from "vitest";
import { OWNER_KINDS } from "../../ipam/owner.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { findLeaks } from "../../store/journal/check.ts";
import { admitOwnerKinds, migrate, ownerKindCheck } from "../../store/journal/migrations.ts";
import { readManifestFolder } from "../harness/kube-manifests.ts";

const ROOT = join(import.meta.dirname, "../..");
const KINDS = Object.keys(OWNER_KINDS);
/** The kinds of the table, and one that another release may add. */
const MORE = [...KINDS, "machine"];

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

/** The state that a daemon of release 0.1.0 has left, as this release opens it. */
function old(): Database.Database {
  const db = database();
  db.exec(readFileSync(join(ROOT, "test/deploy/state/0.1.0.sql"), "utf8"));
  migrate(db);
  return db;
}

/** The names of indexes and constraints, and what SQLite has to say about the file. */
function shape(db: Database.Database): unknown[] {
  return [
    db.pragma("index_list(allocations)"),
    db.pragma("foreign_key_list(allocations)"),
    db.pragma("table_info(allocations)"),
    db.pragma("integrity_check"),
    db.pragma("foreign_key_check"),
  ];
}

function rows(db: Database.Database): unknown[] {
  return db.prepare("SELECT * FROM allocations ORDER BY id").all();
}

function schema(db: Database.Database): unknown {
  return db.prepare("SELECT name, sql FROM sqlite_schema WHERE tbl_name = 'allocations' ORDER BY name").all();
}

/** A row like the first, of another kind and, unless it is to be refused as double, with another address. */
function insert(db: Database.Database, kind: string, sameAddress = false): void {
  const columns =
    "network_id, prefix_length, owner_uid, owner_interface, owner_namespace, owner_name, state, since_ms";
  const address = sameAddress ? "address" : "x'040A010203'";
  db.exec(
    `INSERT INTO allocations (${columns}, owner_kind, address)
     SELECT ${columns}, '${kind}', ${address} FROM allocations ORDER BY id LIMIT 1`,
  );
}

describe("the database holds", () => {
  test("the owner kinds of the table, and no others", () => {
    const db = old();
    for (const kind of KINDS) {
      insert(db, kind);
      db.exec("DELETE FROM allocations WHERE address = x'040A010203'");
    }
    expect(() => insert(db, "machine")).toThrow("CHECK constraint failed");
    expect(ownerKindCheck()).toBe(`CHECK (${KINDS.map((kind) => `owner_kind = '${kind}'`).join(" OR ")})`);
  });

  test("another kind when the table has it, also in the state of an earlier release", () => {
    const db = old();
    const before = { shape: shape(db), rows: rows(db) };
    expect(before.rows.length).toBeGreaterThan(2);
    admitOwnerKinds(db, MORE);
    expect({ shape: shape(db), rows: rows(db) }).toEqual(before);
    insert(db, "machine");
    expect(() => insert(db, "nobody")).toThrow("CHECK constraint failed");
    expect(() => insert(db, "machine", true)).toThrow("UNIQUE constraint failed");
  });

  test("a kind of a later release, after this release has opened it", () => {
    const db = old();
    admitOwnerKinds(db, MORE);
    insert(db, "machine");
    const before = [schema(db), rows(db)];
    migrate(db);
    expect([schema(db), rows(db)]).toEqual(before);
    admitOwnerKinds(db, [...KINDS, "host"]);
    expect(rows(db)).toEqual(before[1]);
    db.exec("DELETE FROM allocations WHERE owner_kind = 'machine'");
    insert(db, "host");
  });

  test("an unchanged table where its constraint knows all kinds", () => {
    const db = database();
    migrate(db);
    const before = schema(db);
    admitOwnerKinds(db);
    admitOwnerKinds(db, KINDS.slice(1));
    expect(schema(db)).toEqual(before);
    // Where it had to be rebuilt, SQLite writes the name in quotes.
    const unquoted = (found: unknown) => JSON.stringify(found).replaceAll('\\"', "");
    expect(unquoted(schema(old()))).toBe(unquoted(before));
  });
});

test("an allocation is a leak only where its owner has certainly ended", () => {
  const db = old();
  db.exec("DELETE FROM attachments; DELETE FROM claims; DELETE FROM allocations WHERE id > 1");
  db.exec("UPDATE allocations SET state = 'Bound', owner_kind = 'pod'");
  const more = {
    ...{ object: "Machine", say: "", succeededByName: false, isContainer: false },
    endsWith: "nodes",
  } as const;
  const kinds = {
    ...OWNER_KINDS,
    machine: { ...more, outlivesAttachments: true },
    process: { ...more, outlivesAttachments: false },
  };
  admitOwnerKinds(db, [...Object.keys(kinds), "later"]);
  const leaks = (kind: string) => {
    db.prepare("UPDATE allocations SET owner_kind = ?").run(kind);
    return findLeaks(db, kinds).length;
  };
  const verdicts = Object.fromEntries([...Object.keys(kinds), "later"].map((kind) => [kind, leaks(kind)]));
  expect(verdicts).toEqual({
    ...{ claim: 1, pod: 1, container: 1, addressClaim: 0, machineData: 0 },
    ...{ machine: 0, process: 1, later: 0 },
  });
});

test("the IPAllocation definition has the owner kinds of the table", () => {
  const name = ALLOCATIONS_PATH.split("/").at(-1);
  const definition = readManifestFolder(join(ROOT, "deploy/crds")).find(
    (one) => one.spec?.names?.plural === name,
  );
  const { properties } = definition.spec.versions[0].schema.openAPIV3Schema;
  expect(properties.spec.properties.owner.properties.kind.enum).toEqual(
    Object.values(OWNER_KINDS).map(({ object }) => object),
  );
});
