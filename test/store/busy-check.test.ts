import { expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { Readiness } from "../../store/readiness.ts";
import { PassingClock } from "../harness/passing-clock.ts";
import { StoreNode } from "./store-node.ts";
import { detachWant } from "./subjects.ts";

/** `holdfast check` on a node beside ADDs and DELs: what is under way is no fault, what stays is one. */

test("a release that is told while check runs is no finding, and one that began since is none either", async () => {
  const node = new StoreNode();
  await node.open();
  await node.addPods("a", "b");
  await node.store.detach(detachWant("a"));
  const checked = node.store.check();
  await node.store.agreement.over.drain();
  await node.store.detach(detachWant("b"));
  expect(node.store.pendingCount).toBe(1);
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
    { invariant: "outbox", message: "1 releases are pending: they have not been sent to the API server yet" },
  ]);
});

test("what somebody has taken away of what runs here is put back when check finds it, whatever was written since", async () => {
  const clock = new PassingClock();
  const node = new StoreNode(clock);
  await node.open();
  const { agreement } = node.store;
  // However much time has to pass, nothing is compared because of the time.
  agreement.begin({ intervalMs: 1e12, readiness: new Readiness([]) });
  await clock.passUntil(() => agreement.pending === null, "the start");
  await node.addPods("a", "b");
  const before = node.bound;
  const [first] = node.allocations;
  node.api.remove(`${ALLOCATIONS_PATH}/${first?.metadata.name}`);
  expect(await clock.passWhile(node.store.check())).toMatchObject([
    { invariant: "I2", message: expect.stringContaining("has no IPAllocation") },
  ]);
  await clock.passUntil(() => node.bound.length === 2, "what was taken away");
  expect(node.bound).toEqual(before);
  expect(await clock.passWhile(node.store.check())).toEqual([]);
});
