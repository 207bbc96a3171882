import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { BOOT } from "./subjects.ts";

const root = mkdtempSync(join(tmpdir(), "holdfast-overwritten-"));
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("check reads the database file, and not what SQLite has of it in memory", async () => {
  const context = { clock: new ManualClock(), node: "node-a", bootId: BOOT, namespaceGone: () => false };
  const open = async () => {
    const store = new SqliteStore(root, context, { info: () => {}, error: () => {} });
    await store.open();
    return store;
  };
  (await open()).close();
  const store = await open();
  expect(await store.check()).toEqual([]);
  const file = join(root, "holdfast.db");
  writeFileSync(file, Buffer.alloc(statSync(file).size, 0x5a), { flag: "r+" });
  expect(await store.check()).toEqual([
    expect.objectContaining({
      invariant: "database",
      message: expect.stringContaining("the state database is damaged"),
    }),
  ]);
  store.close();
});
