/** What the API server refuses to restore for good: told, and in nobody's way. */
import { expect, test, vi } from "vitest";
import { ALLOCATIONS_PATH, objectPath } from "../../kube/objects.ts";
import { Continuity } from "../../store/cluster/allocations/continuity.ts";
import { NodeStage } from "./node-stage.ts";

test("an allocation that may not be created again is told, its network marked once, and all others are restored", async () => {
  const marks = vi.spyOn(Continuity.prototype, "missing");
  const stage = new NodeStage();
  await stage.open();
  await stage.settle();
  const [refused, other] = await stage.addPods("a", "b");
  for (const { metadata } of stage.allocations) stage.api.remove(objectPath(ALLOCATIONS_PATH, metadata.name));
  const send = stage.api.send.bind(stage.api);
  stage.api.send = async (request) => {
    const { spec } = (request.body ?? {}) as { spec?: { address?: string } };
    if (request.method === "POST" && spec?.address === refused)
      return { status: 403, body: { message: "denied by a webhook" }, serverMs: null };
    return send(request);
  };
  const first = await stage.store.reassert(true);
  expect(first).toMatchObject({ restored: 1, stillLost: 0 });
  expect(first.problems).toHaveLength(1);
  expect(first.problems[0]).toContain(`${refused} of network blue`);
  expect(first.problems[0]).toContain("denied by a webhook");
  expect(stage.bound).toEqual([`${other}: b.eth0`]);
  const before = marks.mock.calls.length;
  expect(before).toBeGreaterThan(0);
  expect((await stage.store.reassert(true)).problems).toHaveLength(1);
  expect(marks.mock.calls.length, "the network is not marked again").toBe(before);
  stage.api.send = send;
  expect(await stage.store.reassert()).toMatchObject({ restored: 1, problems: [] });
  expect(stage.bound).toHaveLength(2);
  marks.mockRestore();
});

test("an object that is not sound does not keep the others from being compared", async () => {
  const stage = new NodeStage();
  await stage.open();
  await stage.settle();
  const [odd, other] = await stage.addPods("a", "b");
  for (const { metadata, spec } of stage.allocations) {
    const path = objectPath(ALLOCATIONS_PATH, metadata.name);
    if (spec.address === other) stage.api.remove(path);
    else stage.api.put(ALLOCATIONS_PATH, { metadata, status: { state: "Bound" } });
  }
  const { restored, problems } = await stage.store.reassert(true);
  expect(restored).toBe(1);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(odd);
});
