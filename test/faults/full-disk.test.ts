/** A full disk: no new addresses, no half rows, releases go on, and all mends itself when there is room again. */
import { closeSync, existsSync, openSync, readdirSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { pause, until } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/16,fd10::/64" });
/** Longer than the daemon takes between two looks at a full disk. */
const LOOKS_MS = 12_000;

beforeEach(requireRoot);

/** Takes all the space that is left. */
function fill(directory: string, name: string): void {
  const fd = openSync(join(directory, name), "w");
  try {
    for (const block of [Buffer.alloc(1 << 20), Buffer.alloc(4096)]) {
      try {
        for (;;) writeSync(fd, block);
      } catch (error) {
        expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
      }
    }
  } finally {
    closeSync(fd);
  }
  expect(statfsSync(directory).bavail).toBe(0);
}

async function add(daemon: TestDaemon, id: string): Promise<string> {
  const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
  expect(answer.status, answer.body).toBe(200);
  return answer.body;
}

async function del(daemon: TestDaemon, id: string): Promise<void> {
  const answer = await postCni(daemon, "DEL", id, { config: CONFIG });
  expect(answer.status, answer.body).toBe(200);
}

/** Adds until the disk is noticed to be full. Returns what was answered. */
async function addUntilRefused(daemon: TestDaemon, prefix: string): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  for (let index = 0; ; index++) {
    const answer = await postCni(daemon, "ADD", `${prefix}-${index}`, { config: CONFIG });
    if (answer.status === 200) bodies.set(`${prefix}-${index}`, answer.body);
    else {
      expect(answer.status).toBe(503);
      expect(answer.json()).toMatchObject({ code: 11 });
      return bodies;
    }
    expect(index).toBeLessThan(3_000);
  }
}

async function expectFull(daemon: TestDaemon): Promise<void> {
  const ready = await daemon.get("/readyz");
  expect({ status: ready.status, ...ready.json() }).toMatchObject({
    status: 503,
    code: "NOT_READY",
    message: expect.stringMatching(/disk .*full/),
  });
  const status = await daemon.cni("STATUS", "", { config: { ...CONFIG, cniVersion: "1.1.0" } });
  expect(status.code).toBe(1);
  expect(status.json()).toMatchObject({ code: 50, msg: expect.stringMatching(/full/) });
  expect((await daemon.get("/v1/check")).json().findings).toContainEqual(
    expect.objectContaining({
      invariant: "ready",
      message: expect.stringMatching(/gives no address now: .*disk .*full/),
    }),
  );
  const refused = await daemon.cni("ADD", "late", { config: CONFIG });
  expect(refused.json()).toMatchObject({ code: 11 });
}

test("on a full disk ADDs are refused and DELs release, and the daemon is ready again only when there is room", async () => {
  const node = new StandaloneNode();
  node.mountTmpfs(node.path("state"), "24m");
  const daemon = await node.daemon();
  const bodies = new Map<string, string>();
  for (let index = 0; index < 20; index++) bodies.set(`early-${index}`, await add(daemon, `early-${index}`));

  fill(daemon.state, "filler");
  for (const [id, body] of await addUntilRefused(daemon, "c")) bodies.set(id, body);
  await until(async () => (await daemon.get("/v1/check")).status === 200, "the database to be reopened");
  await expectFull(daemon);
  await expectSound(daemon);
  expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());

  const gone = [...bodies.keys()].filter((_, index) => index % 2 === 0);
  for (const id of gone) {
    await del(daemon, id);
    bodies.delete(id);
  }
  expect(await daemon.cni("DEL", "early-1", { config: CONFIG })).toMatchObject({ code: 0, stderr: "" });
  bodies.delete("early-1");
  expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());

  for (const end = performance.now() + LOOKS_MS; performance.now() < end; ) {
    await expectFull(daemon);
    await pause(200);
  }
  await expectSound(daemon);

  rmSync(join(daemon.state, "filler"));
  await until(async () => (await daemon.get("/readyz")).status === 200, "the daemon to find room");
  for (const [id, body] of bodies) expect(await add(daemon, id)).toBe(body);
  await add(daemon, "new");
  await expectSound(daemon);
});

test("on a disk on which nothing can be written a DEL goes to the spool, and is delivered later", async () => {
  const node = new StandaloneNode();
  node.mountTmpfs(node.path("state"), "24m");
  const spool = node.path("spool");
  const daemon = await node.daemon({ args: ["--spool", spool] });
  const bodies = new Map([["a", await add(daemon, "a")]]);
  let tombstones = 0;
  await add(daemon, "b");
  fill(daemon.state, "filler");
  for (const [id, body] of await addUntilRefused(daemon, "c")) bodies.set(id, body);

  await until(() => !existsSync(join(daemon.state, "reserve")), "the reserve to be spent");
  fill(daemon.state, "filler-2");
  // DELs of containers nobody knows are recorded too: they take what room is left.
  await until(async () => {
    const unknown = Array.from({ length: 50 }, () =>
      postCni(daemon, "DEL", `nobody-${tombstones++}`, { config: CONFIG }),
    );
    return (await Promise.all(unknown)).some(({ status }) => status === 503);
  }, "a DEL that cannot be written");
  const del = await daemon.cni("DEL", "b", { config: CONFIG, spool });
  expect(del).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("goes to the spool") });
  expect(readdirSync(spool)).toHaveLength(1);
  expect((await daemon.get("/readyz")).status).toBe(503);

  rmSync(join(daemon.state, "filler"));
  rmSync(join(daemon.state, "filler-2"));
  await until(async () => (await daemon.get("/readyz")).status === 200, "the daemon to find room");
  await until(() => readdirSync(spool).length === 0, "the spool to be drained");
  await expectSound(daemon);
  expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());
  for (const [id, body] of bodies) expect(await add(daemon, id)).toBe(body);
});

test("a daemon that is started on a full disk serves DELs, and ADDs once there is room", async () => {
  const node = new StandaloneNode();
  node.mountTmpfs(node.path("state"), "24m");
  const first = await node.daemon();
  const kept = await add(first, "kept");
  await add(first, "gone");
  await first.end("SIGKILL");
  fill(first.state, "filler");

  const daemon = await node.daemon({ wait: false });
  await until(
    () => existsSync(daemon.socket) && daemon.log.includes("listening"),
    () => `the socket; log: ${daemon.log}`,
  );
  await expectFull(daemon);
  await del(daemon, "gone");
  expect(await attachedTo(daemon, "blue")).toEqual(["kept"]);
  rmSync(join(daemon.state, "filler"));
  await until(async () => (await daemon.get("/readyz")).status === 200, "the daemon to find room");
  expect(await add(daemon, "kept")).toBe(kept);
  await expectSound(daemon);
});

test("with a long write-ahead log on a full disk there is room for a checkpoint, and DELs are served", async () => {
  const node = new StandaloneNode();
  node.mountTmpfs(node.path("state"), "120m");
  const daemon = await node.daemon();
  const ids = Array.from({ length: 7_000 }, (_, index) => `c-${index}`);
  for (let from = 0; from < ids.length; from += 100) {
    await Promise.all(ids.slice(from, from + 100).map((id) => add(daemon, id)));
  }
  fill(daemon.state, "filler");
  for (const id of (await addUntilRefused(daemon, "late")).keys()) ids.push(id);
  for (let from = 0; from < 1_000; from += 100) {
    await Promise.all(ids.slice(from, from + 100).map((id) => del(daemon, id)));
  }
  expect(await attachedTo(daemon, "blue")).toEqual(ids.slice(1_000).sort());
  await expectSound(daemon);
});
