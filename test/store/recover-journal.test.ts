/** What a journal learns from the API at a start: after it was lost, after a reboot, and at every other one. */
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ApiAway } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { OtherNode } from "../../store/cluster/node-identity.ts";
import { NODE, NodeStage } from "./node-stage.ts";
import { BOOT, detachWant, want } from "./subjects.ts";

const NEXT_BOOT = "next-boot";
const FILES = ["holdfast.db", "holdfast.db-wal", "holdfast.initialised", "holdfast.open"];

async function started(...names: string[]): Promise<{ stage: NodeStage; ips: string[] }> {
  const stage = new NodeStage();
  await stage.open();
  await stage.settle();
  return { stage, ips: await stage.addPods(...names) };
}

async function lost(stage: NodeStage): Promise<void> {
  await stage.store.close();
  for (const file of FILES) rmSync(join(stage.folder, file), { force: true });
}

/** Ends the attachment in the journal alone, as one that a lost write never reached. */
async function forget(stage: NodeStage, containerId: string): Promise<void> {
  await stage.journalFolder.write((ledger) => {
    for (const row of ledger.sql.attachmentsOfContainer.all(containerId, "eth0"))
      ledger.attachments.remove(row);
  });
}

test.each([1, 2, 3])(
  "a lost journal whose recovery dies at write %i learns everything at the next start",
  async (dies) => {
    const { stage } = await started("a", "b", "c");
    await lost(stage);
    await stage.open();
    const folder = stage.journalFolder;
    const write = folder.write.bind(folder);
    let writes = 0;
    Object.assign(folder, {
      write: (work: Parameters<typeof write>[0]) => {
        writes += 1;
        return writes === dies ? Promise.reject(new Error("killed here")) : write(work);
      },
    });
    await stage.settle().catch(() => {});
    await stage.open();
    await stage.settle();
    expect(stage.journal).toEqual(["a", "b", "c"]);
    for (const id of stage.journal) await stage.store.detach(detachWant(id));
    await stage.store.drainOutbox();
    expect(stage.bound).toEqual([]);
  },
);

test("a DEL that was drained from the spool before the recovery counts, also one of an earlier boot", async () => {
  const { stage, ips } = await started("a", "b", "c");
  await lost(stage);
  await stage.open();
  await stage.store.detach({ ...detachWant("a"), reason: "DEL from the spool" });
  await stage.store.detach({ ...detachWant("b", { bootId: "boot-before" }), reason: "DEL from the spool" });
  await stage.store.housekeeping(Number.MAX_SAFE_INTEGER);
  await stage.settle();
  expect(stage.journal).toEqual(["c"]);
  expect(stage.bound).toEqual([`${ips[2]}: c.eth0`]);
});

test("every start: what the API has and the journal has not is recorded, and its DEL frees it", async () => {
  const { stage, ips } = await started("a", "b");
  await forget(stage, "a");
  await stage.open();
  expect(await stage.settle()).toEqual({ recovered: 0, owed: 0 });
  expect(await stage.store.recoverUnknown()).toBe(1);
  expect(stage.journal).toEqual(["a", "b"]);
  expect(await stage.store.recoverUnknown()).toBe(0);
  await stage.store.detach(detachWant("a"));
  await stage.store.drainOutbox();
  expect(stage.bound).toEqual([`${ips[1]}: b.eth0`]);
});

test("every start: a list from a stale cache is not believed, a DEL that was seen is, and what is owed is left alone", async () => {
  const { stage, ips } = await started("stale", "deleted", "owed", "used");
  await forget(stage, "stale");
  await forget(stage, "deleted");
  await stage.store.detach(detachWant("deleted"));
  const list = stage.api.list.bind(stage.api);
  stage.api.list = async (request) => {
    const answer = await list(request);
    if (request.path === ALLOCATIONS_PATH && request.metadataOnly !== true) {
      const [path] = [...stage.api.objects].find(([, it]) => it.spec?.address === ips[0]) ?? [""];
      stage.api.remove(path);
      // One more DEL, in the middle of it.
      await stage.store.detach(detachWant("owed"));
    }
    return answer;
  };
  await stage.store.recoverUnknown();
  expect(stage.journal).toEqual(["used"]);
  await stage.store.drainOutbox();
  expect(stage.bound).toEqual([`${ips[3]}: used.eth0`]);
});

test("every start: an ADD that is under way is not taken for something lost", async () => {
  const { stage } = await started();
  const send = stage.api.send.bind(stage.api);
  stage.api.send = async (request) => {
    const answer = await send(request);
    // It is reserved, and the answer is on its way.
    if (request.method === "POST") expect(await stage.store.recoverUnknown()).toBe(0);
    return answer;
  };
  await stage.addPods("a");
  expect(stage.journal).toEqual(["a"]);
});

test("after a reboot of a node that surely is ours, what the journal does not know is given back where its pod has ended", async () => {
  const { stage, ips } = await started("a", "b");
  await forget(stage, "a");
  stage.endedPods.add("a-uid");
  stage.reportBoot(NEXT_BOOT);
  await stage.open({ bootId: NEXT_BOOT });
  expect(await stage.settle()).toEqual({ recovered: 0, owed: 1 });
  expect(stage.bound).toEqual([`${ips[1]}: b.eth0`]);
});

test("after a reboot, what the journal does not know of a living pod is recorded, and the pod's next sandbox takes it up", async () => {
  const { stage, ips } = await started("a", "b");
  await forget(stage, "a");
  stage.reportBoot(NEXT_BOOT);
  await stage.open({ bootId: NEXT_BOOT });
  expect(await stage.settle()).toEqual({ recovered: 1, owed: 0 });
  expect(stage.bound).toEqual([`${ips[0]}: a.eth0`, `${ips[1]}: b.eth0`].sort());
  expect(await stage.added(want("again", { pod: "a", bootId: NEXT_BOOT }))).toEqual([ips[0]]);
  expect(stage.bound).toEqual([`${ips[0]}: again.eth0`, `${ips[1]}: b.eth0`].sort());
});

test("a container without a pod that an earlier boot's journal does not know is recorded: nobody can be asked", async () => {
  const { stage } = await started();
  const ips = await stage.added(want("alone"));
  await forget(stage, "alone");
  stage.reportBoot(NEXT_BOOT);
  await stage.open({ bootId: NEXT_BOOT });
  expect(await stage.settle()).toEqual({ recovered: 1, owed: 0 });
  expect(stage.bound).toEqual([`${ips[0]}: alone.eth0`]);
});

test("a journal copied in an earlier boot releases nothing of what runs in this one", async () => {
  const { stage, ips } = await started("former");
  stage.reportBoot(NEXT_BOOT);
  await stage.store.close();
  const copy = `${stage.folder}-copy`;
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(stage.folder, copy, { recursive: true });
  await stage.open({ bootId: NEXT_BOOT });
  await stage.settle();
  const [now] = await stage.added(want("now", { pod: "now", bootId: NEXT_BOOT }));
  await stage.store.close();
  rmSync(stage.folder, { recursive: true });
  cpSync(copy, stage.folder, { recursive: true });
  await stage.open({ bootId: NEXT_BOOT });
  expect(await stage.settle()).toEqual({ recovered: 1, owed: 0 });
  expect(stage.bound).toEqual([`${ips[0]}: former.eth0`, `${now}: now.eth0`].sort());
  await stage.store.detach(detachWant("now", { bootId: NEXT_BOOT }));
  await stage.store.drainOutbox();
  expect(stage.bound).toEqual([`${ips[0]}: former.eth0`]);
});

test("pods are asked before anything is settled: an API server that goes away meanwhile settles nothing", async () => {
  const { stage } = await started("a");
  await forget(stage, "a");
  const before = stage.bound;
  stage.reportBoot(NEXT_BOOT);
  await stage.open({ bootId: NEXT_BOOT });
  stage.endedPods.has = () => {
    throw new ApiAway("the test says so");
  };
  await expect(stage.settle()).rejects.toThrow(ApiAway);
  expect(stage.store.isSettled).toBe(false);
  expect(stage.bound).toEqual(before);
});

test.each([
  ["is not there", () => {}],
  ["reports no boot ID", (stage: NodeStage) => stage.reportBoot("")],
])(
  "a Node object that %s: nothing is given back for a reboot, a DEL gives it back",
  async (_what, prepare) => {
    const { stage, ips } = await started("a", "b");
    await forget(stage, "a");
    prepare(stage);
    await stage.open({ bootId: NEXT_BOOT });
    expect((await stage.settle()).owed).toBe(0);
    expect(stage.journal).toEqual(["a", "b"]);
    expect(stage.said.join("\n")).toContain(`Node ${NODE}`);
    await stage.store.detach(detachWant("a", { bootId: NEXT_BOOT }));
    await stage.store.drainOutbox();
    expect(stage.bound).toEqual([`${ips[1]}: b.eth0`]);
  },
);

test.each(["a former journal", "no journal"])(
  "a Node of another boot, and %s: nothing is settled, recovered or released",
  async (which) => {
    const { stage, ips } = await started("a", "b");
    if (which === "no journal") await lost(stage);
    else {
      await forget(stage, "a");
      await stage.store.close();
    }
    const before = stage.bound;
    stage.endedPods.add("a-uid");
    stage.reportBoot(BOOT);
    await stage.open({ bootId: NEXT_BOOT });
    await expect(stage.settle()).rejects.toThrow(OtherNode);
    await expect(stage.settle()).rejects.toThrow(new RegExp(`${BOOT}.*${NEXT_BOOT}`));
    await stage.store.detach(detachWant("b", { bootId: NEXT_BOOT }));
    await stage.store.housekeeping(1e15);
    expect(stage.bound).toEqual(before);
    expect(stage.journal).toEqual([]);
    // The kubelet reports: it was this machine before its restart.
    stage.reportBoot(NEXT_BOOT);
    await stage.settle();
    expect(stage.bound.map((one) => one.split(":")[0])).toEqual(which === "no journal" ? [ips[0]] : []);
  },
);

test("a machine that gets another node's name within its boot records and releases nothing", async () => {
  const { stage, ips } = await started("elsewhere", "own");
  // The Node of this name is another machine's, and so is one of its containers.
  await forget(stage, "elsewhere");
  stage.reportBoot(NEXT_BOOT);
  await stage.open();
  const before = stage.bound;
  await expect(stage.settle()).rejects.toThrow(OtherNode);
  await stage.store.detach(detachWant("own"));
  await stage.store.housekeeping(1e15);
  expect(stage.bound).toEqual(before);
  expect(stage.journal).toEqual([]);
  // Under its own name again it is told what it owes.
  stage.reportBoot(BOOT);
  await stage.settle();
  expect(stage.bound).toEqual([`${ips[0]}: elsewhere.eth0`]);
});

test("a start within the boot that settled says nothing of a Node that reports no boot ID", async () => {
  const { stage } = await started("a");
  const warnings = stage.said.length;
  expect(warnings).toBe(1);
  await stage.open();
  await stage.settle();
  expect(stage.said.slice(warnings)).toEqual([]);
});

test("a new sandbox whose journal entry came from the API continues with the same address", async () => {
  const { stage, ips } = await started("a");
  await lost(stage);
  await stage.open();
  await stage.settle();
  expect(await stage.added(want("again", { pod: "a" }))).toEqual(ips);
  expect(stage.bound).toEqual([`${ips[0]}: again.eth0`]);
});
