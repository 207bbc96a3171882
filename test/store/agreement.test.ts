/** The loop that brings a node and the API server together: what waits for what, and what comes again. */

import { readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { ApiAway } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import { whyList } from "../../store/cluster/agreement/own-objects.ts";
import { markUnproven } from "../../store/cluster/agreement/unproven.ts";
import { Readiness } from "../../store/readiness.ts";
import { PassingClock } from "../harness/passing-clock.ts";
import { steadyContinuity } from "../harness/steady-continuity.ts";
import { until } from "../harness/wait.ts";
import { StoreNode } from "./store-node.ts";

const FIVE_MINUTES_MS = 300_000;
/** However much time has to pass, nothing is compared because of the time. */
const NEVER_MS = 1e12;

/** A node that has settled and has two containers. */
async function begun(intervalMs: number) {
  const clock = new PassingClock();
  const node = new StoreNode(clock);
  const continuity = steadyContinuity(clock);
  const missing = vi.spyOn(continuity, "missing");
  await node.open({ continuity });
  const { agreement } = node.store;
  const loop = { whyNot: null as string | null };
  const readiness = new Readiness([{ name: "state", whyNot: () => loop.whyNot }]);
  agreement.begin({ intervalMs, readiness });
  await clock.passUntil(() => agreement.pending === null, "the start");
  await node.addPods("a", "b");
  const become = (whyNot: string | null) => {
    loop.whyNot = whyNot;
    readiness.changed();
  };
  return { clock, node, agreement, continuity, become, missing, lists: countLists(node) };
}

/** How often the node lists what is labelled with its name; `before`: what each list waits for. */
function countLists(node: StoreNode, before = async () => {}): () => number {
  let lists = 0;
  const list = node.api.list.bind(node.api);
  node.api.list = async (request) => {
    if (request.query?.labelSelector !== undefined) {
      lists += 1;
      await before();
    }
    return list(request);
  };
  return () => lists;
}

async function pass(clock: PassingClock, halfMinutes: number): Promise<void> {
  for (let round = 0; round < halfMinutes; round += 1) await clock.passUntil(() => true, "half a minute");
}

function objectOf(node: StoreNode, containerId: string): IPAllocation {
  const keys = ({ status }: IPAllocation) => Object.keys(status?.attachments ?? {});
  const found = node.allocations.find((one) => keys(one).some((key) => key.startsWith(`${containerId}/`)));
  if (found === undefined) throw new Error(`nothing is held for ${containerId}`);
  return found;
}

const pathOf = ({ metadata }: IPAllocation) => `${ALLOCATIONS_PATH}/${metadata.name}`;

/** What hangs until it is let go, and whether something does. */
function hanging() {
  let letGo = () => {};
  let isHanging = false;
  const until = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  onTestFinished(() => letGo());
  const hang = () => {
    isHanging = true;
    return until;
  };
  return { hang, letGo, isHanging: () => isHanging };
}

test("what a node holds is compared after a gap also while a list hangs", async () => {
  const { clock, node, agreement } = await begun(NEVER_MS);
  const { hang, isHanging } = hanging();
  countLists(node, hang);
  await node.journalDirectory.write(markUnproven);
  agreement.lostTouch();
  await clock.passUntil(isHanging, "the list");
  node.api.remove(pathOf(objectOf(node, "a")));
  await node.journalDirectory.write(markUnproven);
  agreement.lostTouch();
  await clock.passUntil(() => node.bound.length === 2, "the comparison");
});

test("what a node holds is compared after a gap also while a comparison hangs", async () => {
  const { clock, node, agreement } = await begun(FIVE_MINUTES_MS);
  const { hang, isHanging } = hanging();
  node.api.before = (request) => (!isHanging() && request.path.startsWith(`${ALLOCATIONS_PATH}/`) ? hang() : undefined);
  await clock.passUntil(isHanging, "the comparison");
  let requests = 0;
  node.api.before = () => {
    requests += 1;
  };
  agreement.lostTouch();
  await clock.passUntil(() => requests > 0, "another one");
});

test("a doubt while everything is compared is not forgotten", async () => {
  const { clock, node, agreement, continuity } = await begun(1_000);
  // Everything is compared again after hours.
  vi.spyOn(clock, "random").mockReturnValue(0.9);
  const compared = vi.spyOn(continuity, "noteCompared");
  let reads = 0;
  let hasDoubted = false;
  node.api.before = ({ method, path }) => {
    if (method !== "GET" || !path.startsWith(`${ALLOCATIONS_PATH}/`)) return;
    reads += 1;
    // The first one is the last write, the second one is "a", and has been compared when "b" is read.
    if (reads < 3 || hasDoubted) return;
    hasDoubted = true;
    node.api.remove(pathOf(objectOf(node, "a")));
    compared.mockClear();
    agreement.doubt();
  };
  agreement.doubt();
  await clock.passUntil(() => hasDoubted && compared.mock.calls.length > 3, "comparisons");
  expect(node.bound).toHaveLength(2);
});

test("a node with a new journal lists its objects at its start, and not at every comparison", async () => {
  const clock = new PassingClock();
  const node = new StoreNode(clock);
  await node.open();
  await clock.passWhile(node.settle());
  await node.addPods("a", "b");
  await node.store.close();
  for (const file of readdirSync(node.directory)) rmSync(join(node.directory, file), { recursive: true, force: true });
  await node.open();
  const lists = countLists(node);
  const { agreement } = node.store;
  agreement.begin({ intervalMs: FIVE_MINUTES_MS, readiness: new Readiness([]) });
  await clock.passUntil(() => agreement.pending === null, "the start");
  await pass(clock, 120);
  expect(node.journal).toEqual(["a", "b"]);
  expect(lists()).toBeLessThanOrEqual(2);
});

test("a node whose last address belongs to somebody else does not list at every comparison", async () => {
  const { clock, node, lists } = await begun(FIVE_MINUTES_MS);
  const { spec, status, ...rest } = structuredClone(objectOf(node, "b"));
  const owner = { ...spec.owner, uid: "somebody-else", name: "else" };
  node.api.put(ALLOCATIONS_PATH, {
    ...rest,
    spec: { ...spec, owner },
    status: { ...status, attachments: {} },
  });
  await clock.passUntil(() => node.store.lostCount === 1, "the comparison");
  await pass(clock, 120);
  expect(lists()).toBeLessThanOrEqual(2);
});

test("what somebody has released by force is put back, and no network recovers from it", async () => {
  const { clock, node, agreement, missing } = await begun(NEVER_MS);
  const before = node.bound;
  const one = objectOf(node, "a");
  node.api.put(ALLOCATIONS_PATH, {
    ...one,
    status: { ...one.status, state: "Cooling", attachments: {} },
  });
  agreement.doubt();
  await clock.passUntil(() => node.bound.length === 2, "what was released");
  expect(node.bound).toEqual(before);
  expect(missing).not.toHaveBeenCalled();
});

test("what the API server refuses to take back is tried again at each comparison", async () => {
  const { clock, node, agreement } = await begun(FIVE_MINUTES_MS);
  const before = node.bound;
  node.api.remove(pathOf(objectOf(node, "a")));
  let refused = 0;
  const send = node.api.send.bind(node.api);
  vi.spyOn(node.api, "send").mockImplementation(async (request) => {
    if (request.method === "GET" || request.path !== ALLOCATIONS_PATH) return send(request);
    refused += 1;
    return { status: 403, body: { message: "denied by a webhook" }, serverMs: null };
  });
  agreement.doubt();
  await clock.passUntil(() => refused > 2, "the third attempt");
  // Everything is compared every few hours in any case.
  expect(clock.monotonicMs()).toBeLessThan(20 * FIVE_MINUTES_MS);
  vi.mocked(node.api.send).mockRestore();
  await clock.passUntil(() => node.bound.length === 2, "what was missing");
  expect(node.bound).toEqual(before);
  expect(clock.monotonicMs()).toBeLessThan(40 * FIVE_MINUTES_MS);
});

test("a list that comes due while the journal cannot be read comes again", async () => {
  const { clock, node, agreement, become, lists } = await begun(FIVE_MINUTES_MS);
  become("it is opening");
  await node.journalDirectory.write(markUnproven);
  const { sql } = node.journalDirectory.ledger;
  const fault = vi.spyOn(sql.meta, "get").mockImplementation(() => {
    throw new Error("disk I/O error");
  });
  become(null);
  agreement.lostTouch();
  await pass(clock, 20);
  expect(lists()).toBe(0);
  fault.mockRestore();
  await clock.passUntil(() => lists() > 0, "the list");
});

test("a list whose journal was lost meanwhile is not noted in the next journal", async () => {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  await node.addPods("a", "b");
  const path = pathOf(objectOf(node, "b"));
  await node.journalDirectory.write((ledger) => {
    for (const row of ledger.sql.attachmentsOfContainer.all("b", "eth0")) ledger.attachments.remove(row);
  });
  await node.open({ bootId: "next-boot" });
  const directory = node.journalDirectory;
  const before = directory.ledger;
  const isAnother = () => directory.status.kind === "ready" && directory.ledger !== before;
  let isDamaged = false;
  node.api.before = async (request) => {
    if (isDamaged || request.path !== path) return;
    isDamaged = true;
    for (const name of ["holdfast.db", "holdfast.db-wal"].map((file) => join(node.directory, file)))
      writeFileSync(name, Buffer.alloc(statSync(name).size, 0x5a), { flag: "r+" });
    await until(async () => {
      // Somebody notices.
      await directory.write(({ sql }) => sql.putMeta.run("noticed", "1")).catch(() => {});
      return isAnother();
    }, "another journal");
  };
  await expect(node.store.agreement.judgeOwnObjects()).rejects.toThrow(ApiAway);
  expect(whyList(directory.ledger)).toBe("new journal");
  await node.settle();
  expect(node.journal).toEqual(["a", "b"]);
});
