/**
 * Writes and syncs that fail: nothing is answered as done, memory follows the disk, and the daemon goes on when the
 * disk does.
 */
import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { type Fault, FaultyDisk } from "./faulty-disk.ts";
import { ended, readyOrEnded, StandaloneNode } from "./standalone-node.ts";
import { addressesIn, attachedTo, expectSound, ipsIn, networksOf } from "./truth.ts";
import { postCni } from "./wire.ts";

/** Rests outlast the test, so that counts before and after can be compared. */
const CONFIG = network("blue", { subnets: "10.10.0.0/22,fd10::/64", cooldownSeconds: 3_600 });

const FAULTS: readonly [string, Fault][] = [
  ["sync: EIO", { call: "sync", errno: "EIO" }],
  ["sync of the log: ENOSPC", { call: "sync", errno: "ENOSPC", ending: "-wal" }],
  ["write: EIO", { call: "write", errno: "EIO" }],
  ["write: ENOSPC", { call: "write", errno: "ENOSPC" }],
  ["write of the log, torn: EIO", { call: "tear", errno: "EIO", ending: "-wal" }],
];

function add(daemon: TestDaemon, id: string) {
  return postCni(daemon, "ADD", id, { config: CONFIG });
}

function del(daemon: TestDaemon, id: string) {
  return postCni(daemon, "DEL", id, { config: CONFIG });
}

function ids(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}

async function addAll(daemon: TestDaemon, names: readonly string[]): Promise<Map<string, string>> {
  const answers = await Promise.all(names.map((name) => add(daemon, name)));
  return new Map(
    names.map((name, index) => {
      const answer = answers[index];
      expect(answer?.status, answer?.body).toBe(200);
      return [name, answer?.body as string];
    }),
  );
}

async function isReady(daemon: TestDaemon): Promise<boolean> {
  return (await daemon.get("/readyz")).status === 200;
}

test.each(FAULTS)("during %s no success is answered, and afterwards every answer holds", async (_what, fault) => {
  const node = new StandaloneNode();
  const disk = new FaultyDisk(node);
  const daemon = await node.daemon({ env: disk.env });
  const kept = await addAll(daemon, ids("kept", 20));
  const ending = ids("ending", 10);
  await addAll(daemon, ending);

  disk.fail(fault);
  const refused = await Promise.all(ids("new", 30).map((id) => add(daemon, id)));
  for (const answer of refused) {
    expect({ status: answer.status, ...answer.json() }).toMatchObject({ status: 503, code: 11 });
  }
  await expectAway(daemon);
  const dels = await Promise.all(ending.slice(0, 5).map((id) => del(daemon, id)));
  expect(dels.map(({ status }) => status)).toEqual(Array(5).fill(503));

  disk.mend();
  await until(() => isReady(daemon), "the daemon to go on");
  await expectSound(daemon);
  const next = await expectSameAfterRestart(node, daemon, disk);
  for (const [id, body] of kept) expect(ipsIn((await add(next, id)).body)).toBe(ipsIn(body));
  const attached = await attachedTo(next, "blue");
  expect(attached.filter((id) => id.startsWith("kept"))).toHaveLength(20);
  expect(attached.filter((id) => id.startsWith("ending")).length).toBeGreaterThanOrEqual(5);
  // What was not answered may be there or not, as the disk decided; a runtime deletes it, or asks again.
  for (const id of [...ids("new", 30), ...ending]) expect((await del(next, id)).status).toBe(200);
  expect(await attachedTo(next, "blue")).toEqual([...kept.keys()].sort());
  await expectSound(next);
  await expectSameAfterRestart(node, next, disk);
});

/** It says so wherever it is asked, and still answers. */
async function expectAway(daemon: TestDaemon): Promise<void> {
  expect(await isReady(daemon)).toBe(false);
  const status = await postCni(daemon, "STATUS", "", { config: { ...CONFIG, cniVersion: "1.1.0" } });
  expect({ status: status.status, ...status.json() }).toMatchObject({ status: 503, code: 50 });
  expect((await daemon.get("/metrics")).body).toContain("holdfast_ready 0");
  expect((await daemon.get("/healthz")).status).toBe(200);
}

/** Counts in memory are those that a new process computes from the disk. */
async function expectSameAfterRestart(node: StandaloneNode, daemon: TestDaemon, disk: FaultyDisk): Promise<TestDaemon> {
  const inMemory = await networksOf(daemon);
  await daemon.end("SIGKILL");
  const next = await node.daemon({ env: disk.env });
  expect(await networksOf(next)).toEqual(inMemory);
  await expectSound(next);
  return next;
}

const NOW_AND_THEN: readonly [string, Fault][] = [
  ["29th sync: EIO", { call: "sync", errno: "EIO", every: 29 }],
  ["101st write: EIO", { call: "write", errno: "EIO", every: 101 }],
  ["67th write, torn: EIO", { call: "tear", errno: "EIO", every: 67 }],
  ["1001st write of the log: ENOSPC", { call: "write", errno: "ENOSPC", every: 1_001, ending: "-wal" }],
];

test.each(NOW_AND_THEN)("with each %s failing, every repeated request is served once", async (_what, fault) => {
  const node = new StandaloneNode();
  const disk = new FaultyDisk(node);
  const daemon = await node.daemon({ env: disk.env });
  disk.fail(fault);
  const bodies = new Map<string, string>();
  let refusals = 0;
  const waiting = ids("c", 150);
  const worker = async () => {
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      await untilDone(async () => {
        const answer = await add(daemon, id as string);
        if (answer.status === 200) bodies.set(id as string, answer.body);
        return answer.status === 200;
      });
      if (Number(id.split("-")[1]) % 2 === 0) continue;
      await untilDone(async () => (await del(daemon, id as string)).status === 200);
      bodies.delete(id);
    }
  };
  const untilDone = (attempt: () => Promise<boolean>) =>
    until(async () => {
      const done = await attempt();
      if (!done) refusals += 1;
      return done;
    }, "an answer");
  await Promise.all(Array.from({ length: 5 }, worker));
  disk.mend();
  await until(
    () => isReady(daemon),
    () => `the daemon to go on; log: ${daemon.log}`,
  );
  await expectSound(daemon);
  expect(refusals).toBeGreaterThan(0);
  const given = [...bodies.values()].flatMap(addressesIn);
  expect(new Set(given).size).toBe(given.length);
  expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());
  for (const [id, body] of bodies) expect((await add(daemon, id)).body).toBe(body);
  await expectSameAfterRestart(node, daemon, disk);
});

test.each(FAULTS)("%s at start ends the daemon with the cause", async (_what, fault) => {
  const node = new StandaloneNode();
  const disk = new FaultyDisk(node);
  const first = await node.daemon({ env: disk.env });
  const kept = await addAll(first, ids("kept", 5));
  await first.end("SIGKILL");

  disk.fail(fault);
  const { code, log } = await ended(await node.daemon({ env: disk.env, wait: false }));
  expect({ code, log }).toEqual({ code: 1, log: expect.stringContaining(node.path("state")) });

  disk.mend();
  const daemon = await node.daemon({ env: disk.env });
  await expectSound(daemon);
  for (const [id, body] of kept) expect((await add(daemon, id)).body).toBe(body);
});

test("a write that fails during the start ends the daemon, and the next start completes it", async () => {
  const node = new StandaloneNode();
  const disk = new FaultyDisk(node);
  // Attachments of another boot, which the next start ends in several steps.
  const former = { config: CONFIG, bootId: "an-earlier-boot", bootUs: 1 };
  writeFileSync(node.path("boot-id"), `${former.bootId}\n`);
  const first = await node.daemon({ env: disk.env, args: ["--boot-id-file", node.path("boot-id")] });
  await Promise.all(ids("c", 500).map((id) => postCni(first, "ADD", id, former)));
  await first.end();

  let failedWhileEnding = 0;
  for (let every = 5; every <= 14; every++) {
    disk.fail({ call: "sync", errno: "EIO", every });
    const daemon = await node.daemon({ env: disk.env, wait: false });
    if ((await readyOrEnded(daemon)) === "ended") {
      expect(daemon.process.exitCode).toBe(1);
      if (daemon.log.includes("refused a write")) failedWhileEnding += 1;
    }
    disk.mend();
    await daemon.end("SIGKILL");
  }
  expect(failedWhileEnding).toBeGreaterThan(0);
  const daemon = await node.daemon({ env: disk.env });
  expect(await attachedTo(daemon, "blue")).toEqual([]);
  await expectSound(daemon);
  await expectSameAfterRestart(node, daemon, disk);
});
