/**
 * ADDs that something comes in between of: a DEL, a failing disk, a long sleep, a lost answer. Nothing is left behind.
 */

import { expect, onTestFinished, test } from "vitest";
import { ApiAway } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import { StorageFault } from "../../store/allocations.ts";
import { markCompared, markUnproven, releasesAfter } from "../../store/cluster/agreement/unproven.ts";
import { isOvertaken } from "../../store/journal/uses.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { EVERYTHING } from "./cluster-store.ts";
import { clusterSubject } from "./cluster-subject.ts";
import { StoreNode } from "./store-node.ts";
import { detachWant, nextUs, want } from "./subjects.ts";

const TWO = { subnets: "10.0.0.0/29,fd00::/125" };

async function started(): Promise<StoreNode> {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  return node;
}

/** Lets something happen before each create, which is told its number, from 1 on. */
function beforeCreate(node: StoreNode, act: (count: number, body: { spec: object }) => unknown): void {
  let count = 0;
  node.api.before = async ({ method, path, body }) => {
    if (method !== "POST" || path !== ALLOCATIONS_PATH) return;
    count += 1;
    await act(count, body as { spec: object });
  };
}

/** Somebody else's allocation in the place of one that is about to be made. */
function takenBy(node: StoreNode, body: { spec: object }): void {
  const other = { kind: "Pod", namespace: "shop", name: "other", uid: "other-uid", interface: "eth0" };
  node.api.put(ALLOCATIONS_PATH, { ...body, spec: { ...body.spec, owner: other } });
}

/** From now on requests of these methods are done, and their answers are lost. Returns how to end that. */
function loseAnswers({ api }: StoreNode, methods = ["POST"]): () => void {
  const send = api.send.bind(api);
  api.send = async (request) => {
    const answer = await send(request);
    if (methods.includes(request.method)) throw new ApiAway("the answer is lost");
    return answer;
  };
  return () => {
    api.send = send;
  };
}

test("after a DEL in the middle of a search no further candidate is reserved", async () => {
  const node = await started();
  beforeCreate(node, async (count, body) => {
    expect(count).toBe(1);
    takenBy(node, body);
    await node.store.detach(detachWant("a"));
  });
  const outcome = await node.store.attach(want("a", { pod: "a" }));
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "SUPERSEDED" } });
  expect(node.allocations).toHaveLength(1);
});

test("after a DEL that precedes the first recorded candidate nothing is reserved", async () => {
  const node = await started();
  const us = nextUs();
  const directory = node.journalDirectory;
  const write = directory.write.bind(directory);
  Object.assign(directory, {
    write: async (work: Parameters<typeof write>[0]) => {
      Object.assign(directory, { write });
      await node.store.detach(detachWant("a"));
      return write(work);
    },
  });
  beforeCreate(node, () => expect.unreachable("nothing is created"));
  const outcome = await node.store.attach(want("a", { pod: "a", us }));
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "SUPERSEDED" } });
});

test("a disk that refuses the first candidate's intent leaves no address marked", async () => {
  const node = await started();
  const directory = node.journalDirectory;
  const write = directory.write.bind(directory);
  for (let attempt = 0; attempt < 8; attempt += 1) {
    Object.assign(directory, { write: () => Promise.reject(new StorageFault("disk I/O error")) });
    await expect(node.store.attach(want(`a${attempt}`, { pod: `a${attempt}`, ipam: TWO }))).rejects.toThrow();
    Object.assign(directory, { write });
  }
  await node.added(want("b", { pod: "b", ipam: TWO }));
});

test("a disk that refuses a later candidate's intent leaves no address marked", async () => {
  const node = await started();
  const directory = node.journalDirectory;
  const write = directory.write.bind(directory);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    beforeCreate(node, (_, body) => {
      takenBy(node, body);
      Object.assign(directory, { write: () => Promise.reject(new StorageFault("disk I/O error")) });
    });
    await expect(node.store.attach(want(`a${attempt}`, { pod: `a${attempt}` }))).rejects.toThrow();
    Object.assign(directory, { write });
  }
  node.api.before = () => {};
  // Six addresses, of which others have three.
  for (const id of ["b", "c", "d"]) await node.added(want(id, { pod: id }));
});

test("marks without an allocation make no network full", async () => {
  const node = await started();
  await node.added(want("a", { pod: "a" }));
  const { picture } = node.store;
  for (let value = 0x0a000001n; value <= 0x0a000006n; value += 1n)
    picture.space("blue").allocate({ family: 4, value }, false);
  for (const id of ["b", "c", "d", "e", "f"]) await node.added(want(id, { pod: id }));
});

test("an ADD that seems hours old, because the machine slept, keeps what it reserves", async () => {
  const node = await started();
  const send = node.api.send.bind(node.api);
  node.api.send = async (request) => {
    const answer = await send(request);
    if (request.method !== "POST") return answer;
    // It is reserved; its answer arrives when the machine has woken up and looked around.
    await node.store.housekeeping(Number.MAX_SAFE_INTEGER);
    await node.store.agreement.over.drain();
    return answer;
  };
  const ips = await node.added(want("a", { pod: "a" }));
  expect(node.bound).toEqual([`${ips[0]}: a/eth0`]);
});

test("when the journal loses the row in the middle of a search no further candidate is reserved", async () => {
  const node = await started();
  beforeCreate(node, async (count, body) => {
    expect(count).toBe(1);
    takenBy(node, body);
    await node.journalDirectory.write(({ sql }) => {
      for (const { id } of sql.taking.all()) sql.deleteTaking.run(id);
    });
  });
  const outcome = await node.store.attach(want("a", { pod: "a" }));
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "SUPERSEDED" } });
});

test("the address of an ADD whose answer was lost is released in the end, when no repeat comes", async () => {
  const node = await started();
  const hear = loseAnswers(node);
  const outcome = await node.store.attach(want("a", { pod: "a" }));
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "API_AWAY" } });
  hear();
  expect(node.bound).toHaveLength(1);
  await node.store.housekeeping(Number.MAX_SAFE_INTEGER);
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([]);
});

test("an address of an earlier boot's container that another owner has by now is not reported as lost", async () => {
  const node = await started();
  await node.addPods("a", "b");
  const [object] = node.allocations;
  takenBy(node, { ...object, metadata: { name: object?.metadata.name } } as never);
  await node.open({ bootId: "next-boot" });
  await node.settle();
  expect((await node.store.agreement.judgeHeldUses(EVERYTHING)).lost).toEqual([]);
  expect(node.store.lostCount).toBe(0);
  expect(node.journal).toHaveLength(1);
});

test("the address of an ADD whose answer was lost is released when its pod has ended, and not while it lives", async () => {
  const node = await started();
  const hear = loseAnswers(node);
  const asked = ["a", "b"].map((id) => want(id, { pod: id }));
  for (const one of asked) await node.store.attach(one);
  hear();
  expect(node.bound).toHaveLength(2);
  node.endedPods.add(asked[0]?.pod?.uid ?? "");
  await node.store.housekeeping((asked[1]?.stamp.us ?? 0) + 60_000_000);
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([expect.stringMatching(/b\/eth0$/)]);
});

test("a new sandbox that keeps only some of the old one's addresses releases the others", async () => {
  const node = await started();
  await node.added(want("a", { pod: "p", ipam: TWO }));
  // One of the two was lost, and the network has no subnet for the other one any more.
  const [four] = node.allocations;
  takenBy(node, { ...four, metadata: { name: four?.metadata.name } } as never);
  const after = await node.added(want("b", { pod: "p" }));
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([`${four?.spec.address}: a/eth0`, `${after[0]}: b/eth0`].sort());
});

test("an address that was lost and is held again is no longer reported as lost", async () => {
  const node = await started();
  await node.addPods("a");
  const [object] = node.allocations;
  const path = `${ALLOCATIONS_PATH}/${object?.metadata.name}`;
  node.api.remove(path);
  takenBy(node, { ...object, metadata: { name: object?.metadata.name } } as never);
  expect((await node.store.agreement.judgeHeldUses(EVERYTHING)).lost).toHaveLength(1);
  expect(node.store.lostCount).toBe(1);
  node.api.remove(path);
  expect((await node.store.agreement.judgeHeldUses(EVERYTHING)).restored).toBe(1);
  expect(node.store.lostCount).toBe(0);
  expect(await node.store.answerLocally(want("a", { pod: "a" }))).toMatchObject({ kind: "attached" });
});

test("a late answer to a release does not remove a newer release from the queue", async () => {
  const node = await started();
  await node.addPods("a", "b");
  let answerLate = () => {};
  const asked = new Promise<void>((resolve) => {
    node.api.before = () => {
      node.api.before = () => {};
      resolve();
      return new Promise((answered) => {
        answerLate = answered;
      });
    };
  });
  await node.store.detach(detachWant("a"));
  await asked;
  await node.store.agreement.over.drain();
  expect(node.store.pendingCount).toBe(0);
  await node.store.detach(detachWant("b"));
  answerLate();
  // Waits for what is being sent.
  await node.open();
  await node.settle();
  expect(node.bound).toEqual([]);
});

test("of two addresses that are given back, the one that was written is noted although the other was not", async () => {
  const node = await started();
  await node.added(want("a", { pod: "a", ipam: TWO }));
  // Nothing is given back by itself beside what the test does.
  await node.store.agreement.over.stop();
  let written = 0;
  node.api.before = ({ method }) => {
    if (method !== "PUT") return;
    written += 1;
    if (written > 1) throw new ApiAway("away");
  };
  await node.store.detach(detachWant("a"));
  await expect(node.store.agreement.over.drain()).rejects.toThrow("away");
  expect(node.bound).toHaveLength(1);
  expect(releasesAfter(node.journalDirectory.ledger, 0)).toHaveLength(1);
  node.api.before = () => {};
  await node.store.agreement.over.drain();
  expect(node.bound).toEqual([]);
});

test("the last release outlasts the DEL that is remembered, and in a gap each one counts, up to twenty", async () => {
  const node = await started();
  const end = async (name: string) => {
    await node.addPods(name);
    await node.store.detach(detachWant(name));
    await node.store.agreement.over.drain();
  };
  const { journalDirectory, store } = node;
  const noted = () => releasesAfter(journalDirectory.ledger, 0)?.map((row) => row.container_id) ?? null;
  await end("c0");
  await end("c1");
  await store.agreement.gap.end();
  expect(noted()).toEqual(["c1"]);
  await store.housekeeping(1e15);
  expect(journalDirectory.ledger.sql.deletedUses.all()).toEqual([]);
  expect(noted()).toEqual(["c1"]);
  await store.agreement.gap.begin();
  for (const name of ["c2", "c3"]) await end(name);
  expect(noted()).toEqual(["c1", "c2", "c3"]);
  await journalDirectory.write((ledger) => {
    markUnproven(ledger);
    markCompared(ledger);
  });
  expect(releasesAfter(journalDirectory.ledger, 1)?.map((row) => row.container_id)).toEqual(["c2", "c3"]);
  for (let count = 4; count < 25; count += 1) await end(`c${count}`);
  expect(noted()).toBeNull();
  await store.agreement.gap.end();
  expect(noted()).toEqual(["c21"]);
});

test("repeats of an ADD without an answer keep one row, with each address once", async () => {
  const node = await started();
  loseAnswers(node, ["POST", "PUT"]);
  for (let repeat = 0; repeat < 5; repeat += 1) await node.store.attach(want("a", { pod: "a" }));
  const rows = node.journalDirectory.ledger.sql.taking.all();
  expect(rows.map(({ ips }) => JSON.parse(ips))).toEqual([[{ address: expect.any(String) }]]);
});

test("many DELs of one container are remembered as the newest", async () => {
  const node = await started();
  for (let round = 0; round < 4; round += 1) {
    await node.added(want("a", { pod: "a" }));
    await node.store.detach(detachWant("a"));
    await node.store.agreement.over.drain();
  }
  const { ledger } = node.journalDirectory;
  const us = nextUs();
  await node.store.detach(detachWant("a", { us }));
  await node.store.detach(detachWant("a", { us: 1 }));
  expect(ledger.sql.over.all("a", "eth0")).toMatchObject([{ phase: "gone", deleted: 1, boot_us: us }]);
  expect([us - 1, us].map((at) => isOvertaken(ledger, want("a", { us: at })))).toEqual([true, false]);
});

test("what one round of an ADD has reserved is given back when the next one is refused", async () => {
  const clock = new ManualClock();
  const api = new KubeInMemory(clock);
  api.put("/api/v1/namespaces", { metadata: { name: "shop" } });
  api.put("/api/v1/namespaces/shop/pods", { metadata: { name: "user", namespace: "shop", uid: "user-uid" } });
  const subject = await clusterSubject({ clock, api, admin: api, close: async () => {} });
  onTestFinished(() => subject.close());
  await subject.createClaim("shop", "web", "blue");
  const send = api.send.bind(api);
  api.send = async (request) => {
    const { method, path } = request;
    const answer = await send(request);
    if (method !== "POST" || path !== ALLOCATIONS_PATH) return answer;
    // Before the first round has published it the claim is another network's.
    const claims = namespacedPath(CLAIMS_PATH, "shop", "");
    const [, claim] = [...api.objects].find(([one]) => one.startsWith(claims)) ?? [];
    api.put(claims.replace(/\/$/, ""), { ...claim, spec: { ...claim?.spec, network: "red" } });
    return answer;
  };
  const outcome = await subject.allocations.attach(want("a", { pod: "user", claim: "web" }));
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "CLAIM_OTHER_NETWORK" } });
  await subject.allocations.detach(detachWant("a"));
  const objects = [...api.objects].filter(([path]) => path.startsWith(ALLOCATIONS_PATH)).map(([, it]) => it);
  expect(objects).toHaveLength(1);
  expect(objects.flatMap(({ status }) => Object.keys(status?.attachments ?? {}))).toEqual([]);
});
