import { expect, test } from "vitest";
import { StoreNode } from "./store-node.ts";
import { detachWant } from "./subjects.ts";

/** `holdfast check` on a node beside ADDs and DELs: what is under way is no fault, what stays is one. */

test("a release that is told while check runs is no finding, and one that began since is none either", async () => {
  const node = new StoreNode();
  await node.open();
  await node.addPods("a", "b");
  await node.store.detach(detachWant("a"));
  const checked = node.store.check();
  await node.store.drainOutbox();
  await node.store.detach(detachWant("b"));
  expect(node.store.owedCount).toBe(1);
  expect(await checked).toEqual([]);
});

test("a release that stays outstanding is a finding, whatever begins beside it", async () => {
  const node = new StoreNode();
  await node.open();
  await node.addPods("a", "b");
  await node.store.detach(detachWant("a"));
  const checked = node.store.check();
  await node.store.detach(detachWant("b"));
  expect(await checked).toMatchObject([
    { invariant: "outbox", message: "1 releases have not been told to the API server yet" },
  ]);
});
