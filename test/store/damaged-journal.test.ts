import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StoreNode } from "./store-node.ts";
import { BOOT } from "./subjects.ts";

test("check in a cluster reports a page of the journal that was damaged while in use", async () => {
  const node = new StoreNode();
  node.reportBoot(BOOT);
  await node.open();
  await node.addPods("a", "b");
  // What is in the write-ahead log is not read from the file.
  await node.open();
  expect(await node.store.check()).toEqual([]);
  const file = join(node.directory, "holdfast.db");
  const bytes = readFileSync(file);
  // All but the first page: the file still is a database, and rows are read from what is damaged.
  const pageSize = bytes.readUInt16BE(16);
  bytes.fill(0x5a, pageSize === 1 ? 65_536 : pageSize);
  writeFileSync(file, bytes, { flag: "r+" });
  expect(await node.store.check()).toEqual([
    expect.objectContaining({
      invariant: "database",
      message: expect.stringContaining("the state database is damaged"),
    }),
  ]);
});
