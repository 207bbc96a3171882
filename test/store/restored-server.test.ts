import { expect, test } from "vitest";
import { retained } from "../../allocations/allocation-object.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { whyList } from "../../store/cluster/agreement/own-objects.ts";
import { Readiness } from "../../store/readiness.ts";
import { PassingClock } from "../harness/passing-clock.ts";
import { steadyContinuity } from "../harness/steady-continuity.ts";
import { until } from "../harness/wait.ts";
import { EVERYTHING } from "./cluster-store.ts";
import { StoreNode } from "./store-node.ts";
import { detachWant } from "./subjects.ts";

const TIME = "2026-01-01T00:00:00Z";

async function settled(): Promise<StoreNode> {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  return node;
}

/** The API server may have been restored: the node compares, lists and gives back. */
async function comparedAndListed({ store }: StoreNode): Promise<void> {
  await store.agreement.judgeHeldUses({ everything: false });
  await store.agreement.judgeOwnObjects();
  await store.agreement.over.drain();
}

/** Containers that hold something, in order of their addresses. */
function holders(node: StoreNode): (string | undefined)[] {
  return node.bound.map((one) => one.split(" ")[1]);
}

/**
 * A node whose API server is restored from a backup that was made while both of its containers ran; with `later`,
 * before the node wrote something else; with `afterwards`, when one of them had ended. It compares what it holds, as
 * after a gap.
 */
async function restored({ later = false, afterwards = false } = {}) {
  const clock = new PassingClock();
  const node = new StoreNode(clock);
  const compared: number[] = [];
  const noteCompared = (gap: number) => compared.push(gap);
  await node.open({ continuity: Object.assign(steadyContinuity(clock), { noteCompared }) });
  const { agreement } = node.store;
  // However much time has to pass, nothing is compared because of the time.
  agreement.begin({ intervalMs: 1e12, readiness: new Readiness([]) });
  await clock.passUntil(() => agreement.pending === null, "the start");
  const ips = await node.addPods("ended", "running");
  let backup = structuredClone(node.allocations);
  await node.store.detach(detachWant("ended"));
  await agreement.over.drain();
  expect(node.bound).toEqual([`${ips[1]}: running/eth0`]);
  if (later) await node.addPods("later");
  if (afterwards) backup = structuredClone(node.allocations);
  for (const object of node.allocations) node.api.remove(`${ALLOCATIONS_PATH}/${object.metadata.name}`);
  for (const object of backup) node.api.put(ALLOCATIONS_PATH, object);
  expect(node.bound).toHaveLength(afterwards ? 1 : 2);
  compared.length = 0;
  agreement.lostTouch();
  return { node, ips, clock, compared };
}

test.each([
  ["before the node wrote something else", true],
  ["and nothing was written since", false],
])(
  "an attachment that had ended, %s, and that a restored API server has brought back is ended, and no other",
  async (_, later) => {
    const { node, ips, clock, compared } = await restored({ later });
    const isListed = () => whyList(node.journalDirectory.ledger) === null;
    await clock.passUntil(() => compared.length > 0 && isListed(), "the look for what the server has brought back");
    await node.store.agreement.over.drain();
    const others = later ? [expect.stringMatching(/: later\/eth0$/)] : [];
    expect(node.bound).toEqual([`${ips[1]}: running/eth0`, ...others]);
  },
);

test("a restored API server that has what this node wrote last is asked for that alone", async () => {
  const { node, clock, compared } = await restored({ afterwards: true });
  let requests = 0;
  node.api.before = () => {
    requests += 1;
  };
  await clock.passUntil(() => compared.length > 0, "the comparison after the gap");
  for (let round = 0; round < 20; round += 1) await clock.passUntil(() => true, "quiet times");
  expect(node.bound).toHaveLength(1);
  // What was released last, the allocation, and the Node object.
  expect(requests).toBeLessThanOrEqual(3);
});

test.each([0, 1_000])(
  "a backup that is older than what was put back after an earlier restore is compared, its revisions moved on by %i",
  async (bumped) => {
    const node = await settled();
    await node.addPods("first");
    const early = node.api.server.save();
    const [first] = node.allocations;
    await node.addPods("second");
    const before = node.bound;
    // What was put back is what this node wrote last; the backup has an older state of it, and nothing of the second
    // one.
    node.api.remove(`${ALLOCATIONS_PATH}/${first?.metadata.name}`);
    expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({ restored: 1 });
    node.api.server.restore(early, { bumped });
    expect(await node.store.agreement.judgeHeldUses({ everything: false })).toMatchObject({ restored: 1 });
    expect(node.bound).toEqual(before);
    // From then on the last write is the witness again.
    let requests = 0;
    node.api.before = () => {
      requests += 1;
    };
    await node.store.agreement.judgeHeldUses({ everything: false });
    expect(requests).toBe(2);
  },
);

test("what ended after a restore to smaller numbers, and is back after another one, is noticed", async () => {
  const node = await settled();
  const { server } = node.api;
  const { agreement } = node.store;
  await node.addPods("a", "b", "kept");
  const small = server.save();
  server.etcd.bump(1_000);
  await node.store.detach(detachWant("a"));
  await agreement.over.drain();
  server.restore(small);
  await comparedAndListed(node);
  expect(holders(node)).toEqual(["b/eth0", "kept/eth0"]);
  const before = server.save();
  await node.store.detach(detachWant("b"));
  await agreement.over.drain();
  server.restore(before);
  await comparedAndListed(node);
  expect(holders(node)).toEqual(["kept/eth0"]);
});

test("what ended in a gap is noticed when a restore brings it back, whatever ended after it", async () => {
  const node = await settled();
  const { server } = node.api;
  const { agreement } = node.store;
  await node.addPods("a", "b", "kept");
  await agreement.gap.begin();
  const before = server.save();
  await node.store.detach(detachWant("a"));
  await agreement.over.drain();
  server.restore(before);
  await node.store.detach(detachWant("b"));
  await agreement.over.drain();
  await comparedAndListed(node);
  expect(holders(node)).toEqual(["kept/eth0"]);
});

test("a release is not proven by a state of before its ADD, when the server certainly went back", async () => {
  const node = await settled();
  const { server } = node.api;
  await node.addPods("kept", "a");
  const before = server.save();
  await node.store.detach(detachWant("a"));
  await node.store.agreement.over.drain();
  await node.addPods("b");
  await node.store.detach(detachWant("b"));
  await node.store.agreement.over.drain();
  server.restore(before);
  // Nothing is compared before the restart: no loop has begun.
  node.store.agreement.wentBack();
  await until(() => whyList(node.journalDirectory.ledger) !== null, "the note");
  await node.open();
  await node.settle();
  expect(holders(node)).toEqual(["kept/eth0"]);
});

test("a server whose allocation is older than its release is compared as a whole", async () => {
  const node = await settled();
  const { server } = node.api;
  await node.addPods("kept", "a");
  const object = node.allocations.find(({ status }) =>
    Object.keys(status?.attachments ?? {}).some((key) => key.startsWith("a/")),
  );
  await node.store.detach(detachWant("a"));
  await node.store.agreement.over.drain();
  const older = structuredClone(server.save());
  expect(whyList(node.journalDirectory.ledger)).toBeNull();
  for (const saved of older.objects)
    if (saved.object.metadata.name === object?.metadata.name) saved.object.metadata.resourceVersion = "1";
  server.restore(older, { bumped: 1_000 });
  await node.store.agreement.judgeHeldUses({ everything: false });
  expect(whyList(node.journalDirectory.ledger)).toBe("restored");
});

test("what is compared while its DEL comes, or has versions without a number, is left as it is", async () => {
  const node = await settled();
  await node.addPods("a", "b");
  const versions = () => node.journalDirectory.ledger.sql.attachmentsAfter.all(0, 10).map((row) => row.version);
  const before = versions();
  const { server } = node.api;
  const saved = structuredClone(server.save());
  for (const { object } of saved.objects)
    if (object.kind === "IPAllocation") object.metadata.resourceVersion = `${object.metadata.resourceVersion}-x`;
  server.restore(saved);
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({ restored: 0, problems: [] });
  expect(versions()).toEqual(before);
  let isEnded = false;
  node.api.before = async ({ path }) => {
    if (isEnded || !path.startsWith(`${ALLOCATIONS_PATH}/`)) return;
    isEnded = true;
    for (const id of ["a", "b"]) await node.store.detach(detachWant(id));
  };
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({ problems: [] });
  expect(node.journal).toEqual([]);
});

test("a container that runs wins over what a restored API server says is retained for a deleted claim", async () => {
  const node = await settled();
  const [ip] = await node.addPods("running");
  const [object] = structuredClone(node.allocations);
  if (object === undefined) throw new Error("the pod has no allocation");
  const owner = { kind: "IPAMClaim", namespace: "shop", name: "vm", uid: "vm-1", interface: "" } as const;
  const before = { ...object, spec: { ...object.spec, owner } };
  node.api.put(ALLOCATIONS_PATH, retained(before, TIME, "2999-01-01T00:00:00Z"));
  expect(node.bound).toEqual([]);
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({ restored: 1, lost: [] });
  expect(node.bound).toEqual([`${ip}: running/eth0`]);
});
