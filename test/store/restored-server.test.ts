import { expect, test } from "vitest";
import { Settlement } from "../../daemon/settlement.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { VirtualTime } from "../../platform/virtual-time.ts";
import { retained } from "../../store/cluster/allocations/allocation-object.ts";
import { until } from "../harness/wait.ts";
import { AFTER_GAP } from "./cluster-store.ts";
import { StoreNode } from "./store-node.ts";
import { detachWant } from "./subjects.ts";

const TIME = "2026-01-01T00:00:00Z";

/**
 * A node whose API server is restored from a backup that was made while both of its containers ran; with `later`, before the
 * node wrote something else; with `afterwards`, when one of them had ended.
 */
async function restored({ later = false, afterwards = false } = {}) {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  const ips = await node.addPods("ended", "running");
  let backup = structuredClone(node.allocations);
  await node.store.detach(detachWant("ended"));
  await node.store.drainOutbox();
  expect(node.bound).toEqual([`${ips[1]}: running/eth0`]);
  if (later) await node.addPods("later");
  if (afterwards) backup = structuredClone(node.allocations);
  for (const object of node.allocations) node.api.remove(`${ALLOCATIONS_PATH}/${object.metadata.name}`);
  for (const object of backup) node.api.put(ALLOCATIONS_PATH, object);
  expect(node.bound).toHaveLength(afterwards ? 1 : 2);

  const time = new VirtualTime();
  const comparedAfter: number[] = [];
  const continuity = { gap: 3, recovering: [], noteCompared: (gap: number) => comparedAfter.push(gap) };
  const quiet = { info: () => {}, warn: () => {}, error: () => {} };
  const settlement = new Settlement({
    cluster: {
      api: { clock: time.clock() },
      contact: { probe: async () => {}, continuity },
      store: node.store,
    } as never,
    log: quiet as never,
    intervalMs: 300_000,
    mayBegin: () => true,
    mayCompare: () => true,
  });
  settlement.lostTouch();
  return { node, ips, time, comparedAfter, settlement };
}

test.each([
  ["before the node wrote something else", true],
  ["and nothing was written since", false],
])(
  "an attachment that had ended, %s, and that a restored API server has brought back is ended, and no other",
  async (_, later) => {
    const { node, ips, time, comparedAfter, settlement } = await restored({ later });
    await until(async () => {
      await time.pass(30_000);
      return comparedAfter.length > 0 && !node.store.mustRecover;
    }, "the look for what the server has brought back");
    await node.store.drainOutbox();
    const others = later ? [expect.stringMatching(/: later\/eth0$/)] : [];
    expect(node.bound).toEqual([`${ips[1]}: running/eth0`, ...others]);
    expect(comparedAfter).toEqual([3]);
    settlement.stop();
  },
);

test("a restored API server that has what this node wrote last is asked for that alone", async () => {
  const { node, time, comparedAfter, settlement } = await restored({ afterwards: true });
  let requests = 0;
  node.api.before = () => {
    requests += 1;
  };
  await until(async () => comparedAfter.length > 0, "the comparison after the gap");
  for (let round = 0; round < 20; round += 1) await time.pass(30_000);
  expect(node.bound).toHaveLength(1);
  // What was released last, the allocation, and the Node object.
  expect(requests).toBeLessThanOrEqual(3);
  settlement.stop();
});

test("a container that runs wins over what a restored API server says is retained for a deleted claim", async () => {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  const [ip] = await node.addPods("running");
  const [object] = structuredClone(node.allocations);
  if (object === undefined) throw new Error("the pod has no allocation");
  const owner = { kind: "IPAMClaim", namespace: "shop", name: "vm", uid: "vm-1", interface: "" } as const;
  const before = { ...object, spec: { ...object.spec, owner } };
  node.api.put(ALLOCATIONS_PATH, retained(before, TIME, "2999-01-01T00:00:00Z"));
  expect(node.bound).toEqual([]);
  expect(await node.store.reassert(AFTER_GAP)).toMatchObject({ restored: 1, lost: [] });
  expect(node.bound).toEqual([`${ip}: running/eth0`]);
});
