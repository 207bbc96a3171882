import { expect, onTestFinished, test, vi } from "vitest";
import { ALLOCATIONS_PATH, NODES_PATH, objectPath } from "../../kube/objects.ts";
import { Continuity } from "../../store/cluster/contact/continuity.ts";
import { EVERYTHING } from "./cluster-store.ts";
import { NODE, StoreNode } from "./store-node.ts";

/** What is missing because the Node object was deleted is no sign of a restored etcd: no network is marked for it. */

async function nodeOf(creationTimestamp: string | null) {
  const marks = vi.spyOn(Continuity.prototype, "missing");
  onTestFinished(() => marks.mockRestore());
  const node = new StoreNode();
  register(node, creationTimestamp);
  await node.open();
  await node.settle();
  await node.addPods("a", "b");
  await node.store.agreement.judgeHeldUses(EVERYTHING);
  return { node, marks };
}

function register({ api }: StoreNode, creationTimestamp: string | null): void {
  api.remove(objectPath(NODES_PATH, NODE));
  if (creationTimestamp === null) return;
  const metadata = { name: NODE, creationTimestamp, uid: `uid of ${creationTimestamp}` };
  api.put(NODES_PATH, { metadata, status: {} });
}

function takeAway({ api, allocations }: StoreNode): void {
  for (const { metadata } of allocations) api.remove(objectPath(ALLOCATIONS_PATH, metadata.name));
}

const FIRST = "2026-01-01T00:00:00Z";
const LATER = "2026-01-02T00:00:00Z";

test("a node whose Node was deleted and created again puts its addresses back and marks no network", async () => {
  const { node, marks } = await nodeOf(FIRST);
  takeAway(node);
  register(node, LATER);
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 2,
    freedWithNode: true,
    problems: [],
  });
  expect(marks).not.toHaveBeenCalled();
  // From now on it is that Node's journal: what goes missing next was taken away.
  takeAway(node);
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 2,
    freedWithNode: false,
  });
  expect(marks).toHaveBeenCalled();
});

test.each([
  ["the Node that it knew", LATER, LATER],
  ["an earlier Node, as a restored etcd has it", LATER, FIRST],
  ["no Node any more", LATER, null],
  ["a Node, and had none before", null, LATER],
])("a node that finds its addresses missing and %s marks the network", async (_, before, now) => {
  const { node, marks } = await nodeOf(before);
  takeAway(node);
  register(node, now);
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 2,
    freedWithNode: false,
  });
  expect(marks).toHaveBeenCalled();
});

test("while something cannot be put back, the journal stays that of the Node that was deleted", async () => {
  const { node, marks } = await nodeOf(FIRST);
  takeAway(node);
  register(node, LATER);
  const refuse = vi.spyOn(node.api, "admit").mockReturnValue("denied by a webhook");
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 0,
    freedWithNode: true,
  });
  refuse.mockRestore();
  await node.open();
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 2,
    freedWithNode: true,
    problems: [],
  });
  expect(marks).not.toHaveBeenCalled();
});
