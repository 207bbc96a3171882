/** What a journal learns from the API at a start: after it was lost, after a reboot, and at every other one. */

import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, attachmentKey } from "../../kube/objects.ts";
import { whyList } from "../../store/cluster/agreement/own-objects.ts";
import { OtherNode } from "../../store/cluster/parts/node-identity.ts";
import { EVERYTHING } from "./cluster-store.ts";
import { NODE, StoreNode } from "./store-node.ts";
import { BOOT, detachWant, want } from "./subjects.ts";

const NEXT_BOOT = "next-boot";
const FILES = ["holdfast.db", "holdfast.db-wal", "holdfast.pages", "holdfast.answered", "holdfast.answered-copy"];

async function started(...names: string[]): Promise<{ node: StoreNode; ips: string[] }> {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  return { node, ips: await node.addPods(...names) };
}

async function lost(node: StoreNode): Promise<void> {
  await node.store.close();
  for (const file of FILES) rmSync(join(node.directory, file), { force: true });
}

function podUidOf(node: StoreNode, containerId: string): string {
  const found = node.store.attachmentsAfter(0, 100).find((one) => one.containerId === containerId);
  return found?.pod?.uid ?? "";
}

/** Ends the attachment in the journal alone, as one that a lost write never reached. */
async function forget(node: StoreNode, containerId: string): Promise<void> {
  await node.journalDirectory.write((ledger) => {
    for (const row of ledger.sql.attachmentsOfContainer.all(containerId, "eth0")) ledger.attachments.remove(row);
  });
}

test.each([1, 2, 3])(
  "a lost journal whose recovery dies at write %i learns everything at the next start",
  async (dies) => {
    const { node } = await started("a", "b", "c");
    await lost(node);
    await node.open();
    const directory = node.journalDirectory;
    const write = directory.write.bind(directory);
    let writes = 0;
    Object.assign(directory, {
      write: (work: Parameters<typeof write>[0]) => {
        writes += 1;
        return writes === dies ? Promise.reject(new Error("killed here")) : write(work);
      },
    });
    await node.settle().catch(() => {});
    await node.open();
    await node.settle();
    expect(node.journal).toEqual(["a", "b", "c"]);
    for (const id of node.journal) await node.store.detach(detachWant(id));
    await node.store.agreement.over.drain();
    expect(node.bound).toEqual([]);
  },
);

test("of two sandboxes of a pod that only the API tells of, nobody knows which came later: both are kept until one ends", async () => {
  const { node } = await started("a");
  const [object] = structuredClone(node.allocations);
  if (object === undefined) throw new Error("the pod has no allocation");
  const [attachment] = Object.values(object.status?.attachments ?? {});
  const address = object.spec.address.replace(/\.\d+\//, ".200/");
  const name = allocationName(object.spec.network, parseInterfaceAddress(address).address);
  node.api.put(ALLOCATIONS_PATH, {
    ...object,
    metadata: { ...object.metadata, name, uid: "of-the-other-sandbox" },
    spec: { ...object.spec, address },
    status: { ...object.status, attachments: { [attachmentKey("b", "eth0")]: attachment } },
  });
  await lost(node);
  await node.open();
  await node.settle();
  expect(node.journal.toSorted()).toEqual(["a", "b"]);
  expect(node.bound).toHaveLength(2);
  await node.store.detach(detachWant("b"));
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([`${object.spec.address}: a/eth0`]);
});

test("a server that does not serve IPAllocations at the moment does not tell that this node has none", async () => {
  const { node } = await started("a");
  await lost(node);
  await node.open();
  const list = node.api.list.bind(node.api);
  node.api.list = async () => ({ kind: "missing" });
  await expect(node.settle()).rejects.toThrow("does not serve IPAllocations");
  node.api.list = list;
  await node.settle();
  expect(node.journal).toEqual(["a"]);
});

test("a journal waits for the disk until it has what the API knows of this boot", async () => {
  const node = new StoreNode();
  const isSynced = () => node.journalDirectory.ledger.db.pragma("synchronous", { simple: true }) === 2;
  for (const bootId of [BOOT, NEXT_BOOT]) {
    node.reportBoot(bootId);
    await node.open({ bootId });
    expect(isSynced()).toBe(true);
    await node.settle();
    expect(isSynced()).toBe(false);
    await node.open({ bootId });
    expect(isSynced()).toBe(false);
  }
});

test("a DEL that comes to a lost journal before it is filled frees the address also after a restart of the machine", async () => {
  const { node, ips } = await started("a", "b");
  await lost(node);
  node.reportBoot(BOOT);
  await node.open();
  await node.store.detach(detachWant("a"));
  node.reportBoot(NEXT_BOOT);
  await node.open({ bootId: NEXT_BOOT });
  expect((await node.settle()).recovered).toBe(1);
  expect(node.bound).toEqual([`${ips[1]}: b/eth0`]);
});

test.each(["runs", "is gone"])(
  "what a container with a used ID had is given back after a restore while the next one of the ID %s",
  async (next) => {
    const { node, ips } = await started("a");
    const [before] = node.allocations;
    await node.store.detach(detachWant("a"));
    await node.store.agreement.over.drain();
    const [now] = await node.added(want("a", { pod: "b" }));
    expect(now).not.toBe(ips[0]);
    node.api.put(ALLOCATIONS_PATH, before as object);
    const isGone = next === "is gone";
    if (!isGone) node.livingNamespaces.add(want("a").netns.path);
    await node.store.agreement.judgeOwnObjects("restored");
    await node.store.agreement.over.drain();
    expect(node.bound).toEqual([...(isGone ? [`${ips[0]}: a/eth0`] : []), `${now}: a/eth0`].sort());
  },
);

test("a journal of another node is put aside: nothing of it is held or released under this one's name", async () => {
  const { node } = await started("a", "b");
  const bound = node.bound;
  await node.open({ name: "node-b" });
  expect(node.journal).toEqual([]);
  expect(node.said.join("\n")).toContain("is another node's; it was kept as holdfast.db.replaced-");
  await node.settle();
  expect(node.bound).toEqual(bound);
  // The next start under that name finds its own.
  await node.open({ name: "node-b" });
  expect(readdirSync(node.directory).filter((name) => name.endsWith(".db"))).toEqual(["holdfast.db"]);
  expect(readdirSync(node.directory).filter((name) => name.startsWith("holdfast.db.replaced-"))).toHaveLength(1);
});

test("an address that was given back is not taken again for a pod that is gone and a container of an earlier boot", async () => {
  const { node } = await started("a", "b");
  // What the journal has of their end is lost with the power.
  for (const object of node.allocations)
    node.api.put(ALLOCATIONS_PATH, {
      ...object,
      status: { ...object.status, state: "Cooling", attachments: {} },
    });
  node.endedPods.add(podUidOf(node, "a"));
  await node.open({ bootId: NEXT_BOOT });
  await node.settle();
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 1,
    over: [{ containerId: "a" }],
  });
  expect(node.bound.map((one) => one.split(" ")[1])).toEqual(["b/eth0"]);
});

test("an address that was given back is not taken again for a pod that is gone and a container whose namespace is gone too", async () => {
  const { node } = await started("a", "b");
  for (const object of node.allocations)
    node.api.put(ALLOCATIONS_PATH, {
      ...object,
      status: { ...object.status, state: "Cooling", attachments: {} },
    });
  for (const id of ["a", "b"]) node.endedPods.add(podUidOf(node, id));
  // The container of the other one still runs: its pod was deleted by force.
  node.goneNamespaces.add(want("a").netns.path);
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 1,
    over: [{ containerId: "a" }],
  });
  expect(node.bound.map((one) => one.split(" ")[1])).toEqual(["b/eth0"]);
});

test("an address that was given back is not taken again for a pod that is gone and that a lost journal learnt from the API", async () => {
  const { node } = await started("a", "b");
  await lost(node);
  await node.open();
  await node.settle();
  for (const object of node.allocations)
    node.api.put(ALLOCATIONS_PATH, { ...object, status: { ...object.status, state: "Cooling" } });
  node.endedPods.add(podUidOf(node, "a"));
  expect(await node.store.agreement.judgeHeldUses(EVERYTHING)).toMatchObject({
    restored: 1,
    over: [{ containerId: "a" }],
  });
  expect(node.bound.map((one) => one.split(" ")[1])).toEqual(["b/eth0"]);
});

test("a DEL that was drained from the spool before the recovery counts, also one of an earlier boot", async () => {
  const { node, ips } = await started("a", "b", "c");
  await lost(node);
  await node.open();
  await node.store.detach({ ...detachWant("a"), reason: "DEL from the spool" });
  await node.store.detach({ ...detachWant("b", { bootId: "boot-before" }), reason: "DEL from the spool" });
  await node.store.housekeeping(Number.MAX_SAFE_INTEGER);
  await node.settle();
  expect(node.journal).toEqual(["c"]);
  expect(node.bound).toEqual([`${ips[2]}: c/eth0`]);
});

test("at every start an allocation that the journal does not know is recorded, and its DEL frees it", async () => {
  const { node, ips } = await started("a", "b");
  await forget(node, "a");
  await node.open();
  expect(await node.settle()).toEqual({ recovered: 0, pending: 0 });
  expect(await node.store.agreement.judgeOwnObjects("restored")).toMatchObject({ recorded: 1 });
  expect(node.journal).toEqual(["a", "b"]);
  expect(await node.store.agreement.judgeOwnObjects("restored")).toMatchObject({ recorded: 0 });
  await node.store.detach(detachWant("a"));
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([`${ips[1]}: b/eth0`]);
});

test("at every start a stale list is not believed, a DEL that was seen counts, and pending releases are left alone", async () => {
  const { node, ips } = await started("stale", "deleted", "pending", "used");
  await forget(node, "stale");
  await forget(node, "deleted");
  await node.store.detach(detachWant("deleted"));
  const list = node.api.list.bind(node.api);
  node.api.list = async (request) => {
    const answer = await list(request);
    if (request.path === ALLOCATIONS_PATH && request.metadataOnly !== true) {
      const [path] = [...node.api.objects].find(([, it]) => it.spec?.address === ips[0]) ?? [""];
      node.api.remove(path);
      // One more DEL, in the middle of it.
      await node.store.detach(detachWant("pending"));
    }
    return answer;
  };
  await node.store.agreement.judgeOwnObjects("restored");
  expect(node.journal).toEqual(["used"]);
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([`${ips[3]}: used/eth0`]);
});

test("at every start an ADD that is under way is not taken for a lost one", async () => {
  const { node } = await started();
  const send = node.api.send.bind(node.api);
  node.api.send = async (request) => {
    const answer = await send(request);
    // It is reserved, and the answer is on its way.
    if (request.method === "POST")
      expect(await node.store.agreement.judgeOwnObjects("restored")).toMatchObject({ recorded: 0 });
    return answer;
  };
  await node.addPods("a");
  expect(node.journal).toEqual(["a"]);
});

test("after a reboot of this node, an allocation that the journal does not know is released if its pod has ended", async () => {
  const { node, ips } = await started("a", "b");
  await forget(node, "a");
  node.endedPods.add("a-uid");
  node.reportBoot(NEXT_BOOT);
  await node.open({ bootId: NEXT_BOOT });
  expect(await node.settle()).toEqual({ recovered: 0, pending: 1 });
  expect(node.bound).toEqual([`${ips[1]}: b/eth0`]);
});

test("after a reboot, a living pod's allocation that the journal does not know is recorded, and its next sandbox gets it", async () => {
  const { node, ips } = await started("a", "b");
  await forget(node, "a");
  node.reportBoot(NEXT_BOOT);
  await node.open({ bootId: NEXT_BOOT });
  expect(await node.settle()).toEqual({ recovered: 1, pending: 0 });
  expect(node.bound).toEqual([`${ips[0]}: a/eth0`, `${ips[1]}: b/eth0`].sort());
  expect(await node.added(want("again", { pod: "a", bootId: NEXT_BOOT }))).toEqual([ips[0]]);
  expect(node.bound).toEqual([`${ips[0]}: again/eth0`, `${ips[1]}: b/eth0`].sort());
});

test("an allocation of a container without a pod that an earlier boot's journal does not know is recorded", async () => {
  const { node } = await started();
  const ips = await node.added(want("alone"));
  await forget(node, "alone");
  node.reportBoot(NEXT_BOOT);
  await node.open({ bootId: NEXT_BOOT });
  expect(await node.settle()).toEqual({ recovered: 1, pending: 0 });
  expect(node.bound).toEqual([`${ips[0]}: alone/eth0`]);
});

test("a journal that was copied in an earlier boot releases nothing that runs in this boot", async () => {
  const { node, ips } = await started("former");
  node.reportBoot(NEXT_BOOT);
  await node.store.close();
  const copy = `${node.directory}-copy`;
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(node.directory, copy, { recursive: true });
  await node.open({ bootId: NEXT_BOOT });
  await node.settle();
  const [now] = await node.added(want("now", { pod: "now", bootId: NEXT_BOOT }));
  await node.store.close();
  rmSync(node.directory, { recursive: true });
  cpSync(copy, node.directory, { recursive: true });
  await node.open({ bootId: NEXT_BOOT });
  expect(await node.settle()).toEqual({ recovered: 1, pending: 0 });
  expect(node.bound).toEqual([`${ips[0]}: former/eth0`, `${now}: now/eth0`].sort());
  await node.store.detach(detachWant("now", { bootId: NEXT_BOOT }));
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([`${ips[0]}: former/eth0`]);
});

test("nothing is settled when the API server goes away while pods are looked up", async () => {
  const { node } = await started("a");
  await forget(node, "a");
  const before = node.bound;
  node.reportBoot(NEXT_BOOT);
  await node.open({ bootId: NEXT_BOOT });
  node.endedPods.has = () => {
    throw new ApiAway("the test says so");
  };
  await expect(node.settle()).rejects.toThrow(ApiAway);
  expect(whyList(node.journalDirectory.ledger)).toBe("first in boot");
  expect(node.bound).toEqual(before);
});

test.each([
  ["is not there", () => {}],
  ["reports no boot ID", (node: StoreNode) => node.reportBoot("")],
])("with a Node object that %s a reboot releases nothing, and a DEL releases it", async (_what, prepare) => {
  const { node, ips } = await started("a", "b");
  await forget(node, "a");
  prepare(node);
  await node.open({ bootId: NEXT_BOOT });
  expect((await node.settle()).pending).toBe(0);
  expect(node.journal).toEqual(["a", "b"]);
  expect(node.said.join("\n")).toContain(`Node ${NODE}`);
  await node.store.detach(detachWant("a", { bootId: NEXT_BOOT }));
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([`${ips[1]}: b/eth0`]);
});

test.each(["a former journal", "no journal"])(
  "with a Node object of another boot and %s nothing is settled, recovered or released",
  async (which) => {
    const { node, ips } = await started("a", "b");
    if (which === "no journal") await lost(node);
    else {
      await forget(node, "a");
      await node.store.close();
    }
    const before = node.bound;
    node.endedPods.add("a-uid");
    node.reportBoot(BOOT);
    await node.open({ bootId: NEXT_BOOT });
    await expect(node.settle()).rejects.toThrow(OtherNode);
    await expect(node.settle()).rejects.toThrow(new RegExp(`${BOOT}.*${NEXT_BOOT}`));
    await node.store.detach(detachWant("b", { bootId: NEXT_BOOT }));
    await node.store.housekeeping(1e15);
    expect(node.bound).toEqual(before);
    expect(node.journal).toEqual([]);
    // The kubelet reports: it was this machine before its restart.
    node.reportBoot(NEXT_BOOT);
    await node.settle();
    expect(node.bound.map((one) => one.split(":")[0])).toEqual(which === "no journal" ? [ips[0]] : []);
  },
);

test("a machine that gets another node's name within its boot records and releases nothing", async () => {
  const { node, ips } = await started("elsewhere", "own");
  // The Node of this name is another machine's, and so is one of its containers.
  await forget(node, "elsewhere");
  node.reportBoot(NEXT_BOOT);
  await node.open();
  const before = node.bound;
  await expect(node.settle()).rejects.toThrow(OtherNode);
  await node.store.detach(detachWant("own"));
  await node.store.housekeeping(1e15);
  expect(node.bound).toEqual(before);
  expect(node.journal).toEqual([]);
  // Under its own name again it is told what it owes.
  node.reportBoot(BOOT);
  await node.settle();
  expect(node.bound).toEqual([`${ips[0]}: elsewhere/eth0`]);
});

test("a start within a boot that has settled does not complain of a Node that reports no boot ID", async () => {
  const { node } = await started("a");
  const warnings = node.said.length;
  expect(warnings).toBe(1);
  await node.open();
  await node.settle();
  expect(node.said.slice(warnings)).toEqual([]);
});

test("a new sandbox keeps the address of a journal entry that came from the API", async () => {
  const { node, ips } = await started("a");
  await lost(node);
  await node.open();
  await node.settle();
  expect(await node.added(want("again", { pod: "a" }))).toEqual(ips);
  expect(node.bound).toEqual([`${ips[0]}: again/eth0`]);
});
