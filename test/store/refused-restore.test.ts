/** What the API server refuses to restore for good: told, and in nobody's way. */

import { expect, test, vi } from "vitest";
import { ALLOCATIONS_PATH, objectPath } from "../../kube/objects.ts";
import { Continuity } from "../../store/cluster/contact/continuity.ts";
import { EVERYTHING } from "./cluster-store.ts";
import { StoreNode } from "./store-node.ts";

test("an allocation that may not be recreated is reported, its network is marked once, and all others are restored", async () => {
  const marks = vi.spyOn(Continuity.prototype, "missing");
  const node = new StoreNode();
  await node.open();
  await node.settle();
  const [refused, other] = await node.addPods("a", "b");
  for (const { metadata } of node.allocations) node.api.remove(objectPath(ALLOCATIONS_PATH, metadata.name));
  const send = node.api.send.bind(node.api);
  node.api.send = async (request) => {
    const { spec } = (request.body ?? {}) as { spec?: { address?: string } };
    if (request.method === "POST" && spec?.address === refused)
      return { status: 403, body: { message: "denied by a webhook" }, serverMs: null };
    return send(request);
  };
  const first = await node.store.agreement.judgeHeldUses(EVERYTHING);
  expect(first).toMatchObject({ restored: 1, stillLost: 0 });
  expect(first.problems).toHaveLength(1);
  expect(first.problems[0]).toContain(`${refused} of network blue`);
  expect(first.problems[0]).toContain("denied by a webhook");
  expect(node.bound).toEqual([`${other}: b/eth0`]);
  const before = marks.mock.calls.length;
  expect(before).toBeGreaterThan(0);
  expect((await node.store.agreement.judgeHeldUses(EVERYTHING)).problems).toHaveLength(1);
  expect(marks.mock.calls.length, "the network is not marked again").toBe(before);
  node.api.send = send;
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({ restored: 1, problems: [] });
  expect(node.bound).toHaveLength(2);
  marks.mockRestore();
});

test("an invalid object does not prevent the comparison of the others", async () => {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  const [odd, other] = await node.addPods("a", "b");
  for (const { metadata, spec } of node.allocations) {
    const path = objectPath(ALLOCATIONS_PATH, metadata.name);
    if (spec.address === other) node.api.remove(path);
    else node.api.put(ALLOCATIONS_PATH, { metadata, status: { state: "Bound" } });
  }
  const { restored, problems } = await node.store.agreement.judgeHeldUses(EVERYTHING);
  expect(restored).toBe(1);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(odd);
});
