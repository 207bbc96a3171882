import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, expect, test } from "vitest";
import { OWNER_KINDS } from "../../ipam/owner.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { prepareLeaks } from "../../store/journal/check.ts";
import { migrate } from "../../store/journal/migrations.ts";
import { readManifestDirectory } from "../harness/kube-manifests.ts";

const ROOT = join(import.meta.dirname, "../..");
const KINDS = Object.keys(OWNER_KINDS);

const opened: Database.Database[] = [];
afterEach(() => {
  for (const db of opened.splice(0)) db.close();
});

/** A journal with one network and no allocation. */
function journal(): Database.Database {
  const db = new Database(":memory:");
  opened.push(db);
  migrate(db);
  db.exec("INSERT INTO networks (id, name) VALUES (1, 'blue')");
  return db;
}

/** An allocation to an owner of a kind; `last` is the last byte of its address. */
function insert(db: Database.Database, kind: string, last: number): void {
  db.prepare(
    `INSERT INTO allocations (network_id, address, prefix_length, owner_kind, owner_uid, owner_interface,
       owner_namespace, owner_name, state, since_ms) VALUES (1, ?, 24, ?, 'u', '', 'shop', 'one', 'Bound', 0)`,
  ).run(Buffer.from([4, 10, 1, 2, last]), kind);
}

test("the database holds the owner kinds of the table, and no others", () => {
  const db = journal();
  for (const [at, kind] of KINDS.entries()) insert(db, kind, at);
  expect(() => insert(db, "machine", 100)).toThrow("CHECK constraint failed");
});

test("an allocation is a leak only where its owner has certainly ended", () => {
  const db = journal();
  insert(db, "pod", 1);
  const more = {
    ...{ object: "Machine", say: "", succeededByName: false, isContainer: false },
    endsWith: "nodes",
  } as const;
  const kinds = {
    ...OWNER_KINDS,
    machine: { ...more, outlivesAttachments: true },
    process: { ...more, outlivesAttachments: false },
  };
  // Kinds that the table has not.
  db.pragma("ignore_check_constraints = ON");
  const leaks = (kind: string) => {
    db.prepare("UPDATE allocations SET owner_kind = ?").run(kind);
    return prepareLeaks(db, kinds).all(0, Number.MAX_SAFE_INTEGER).length;
  };
  const verdicts = Object.fromEntries([...Object.keys(kinds), "later"].map((kind) => [kind, leaks(kind)]));
  expect(verdicts).toEqual({
    ...{ claim: 1, pod: 1, container: 1, addressClaim: 0, machineData: 0 },
    ...{ machine: 0, process: 1, later: 0 },
  });
});

test("the IPAllocation definition has the owner kinds of the table", () => {
  const name = ALLOCATIONS_PATH.split("/").at(-1);
  const definition = readManifestDirectory(join(ROOT, "deploy/crds")).find((one) => one.spec?.names?.plural === name);
  const { properties } = definition.spec.versions[0].schema.openAPIV3Schema;
  expect(properties.spec.properties.owner.properties.kind.enum).toEqual(
    Object.values(OWNER_KINDS).map(({ object }) => object),
  );
});
