/**
 * What somebody does to the state directory while the daemon runs is said within seconds, and nothing is given in the
 * meantime.
 */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";
import { command, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/24" });

async function add(daemon: TestDaemon, ...ids: string[]): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  for (const id of ids) {
    const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
    expect(answer.status, answer.body).toBe(200);
    bodies.set(id, answer.body);
  }
  return bodies;
}

/** /readyz, an ADD and `check` say it. */
async function expectSaid(daemon: TestDaemon, says: RegExp): Promise<void> {
  await until(async () => (await daemon.get("/readyz")).status === 503, "the daemon to say it");
  expect((await daemon.get("/readyz")).json().message).toMatch(says);
  const refused = await postCni(daemon, "ADD", "new", { config: CONFIG });
  expect({ status: refused.status, ...refused.json() }).toMatchObject({ status: 503, code: 11 });
  const check = await daemon.cli("check");
  expect({ ...check, both: check.stdout + check.stderr }).toMatchObject({
    code: 1,
    both: expect.stringMatching(says),
  });
}

async function expectServed(daemon: TestDaemon, bodies: ReadonlyMap<string, string>): Promise<void> {
  await until(async () => (await daemon.get("/readyz")).status === 200, "the daemon to serve");
  expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());
  for (const [id, body] of bodies) expect(await add(daemon, id)).toEqual(new Map([[id, body]]));
  await expectSound(daemon);
}

/** A start that finds nothing of what this boot had. */
async function nextStart(node: StandaloneNode): Promise<TestDaemon> {
  const daemon = await node.daemon({ wait: false });
  await until(async () => (await daemon.get("/healthz").catch(() => null))?.status === 200, "the socket");
  return daemon;
}

test.each(["SIGTERM", "SIGKILL"] as const)(
  "a removed directory: the daemon can still be saved, and after %s the next start waits for what was saved",
  async (signal) => {
    const node = new StandaloneNode();
    const daemon = await node.daemon();
    const bodies = await add(daemon, "a", "b", "c");
    rmSync(daemon.state, { recursive: true });
    await expectSaid(daemon, /state is gone; nothing is allocated or released until it is back/);
    const saved = node.path("saved.db");
    expect(await daemon.cli("backup", saved)).toMatchObject({ code: 0 });
    await daemon.end(signal);
    const next = await nextStart(node);
    await expectSaid(next, /its database is gone, though a daemon had it open since this machine was started/);
    expect(await next.cli("rebuild", "--from", saved)).toMatchObject({ code: 0 });
    await expectServed(next, bodies);
  },
);

test("a renamed directory is missed until it is back, and nothing is lost", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const bodies = await add(daemon, "a", "b");
  const elsewhere = node.path("elsewhere");
  renameSync(daemon.state, elsewhere);
  mkdirSync(daemon.state);
  await expectSaid(daemon, /state is another directory now: it was renamed, or something was mounted over it/);
  rmSync(daemon.state, { recursive: true });
  renameSync(elsewhere, daemon.state);
  await expectServed(daemon, bodies);
  await daemon.end("SIGKILL");
  await expectServed(await node.daemon(), bodies);
});

test("a directory below a mount is missed while it is there, and by a start", async (context) => {
  requireRoot(context);
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const bodies = await add(daemon, "a", "b");
  node.mountTmpfs(daemon.state, "16m");
  await expectSaid(daemon, /something was mounted over it/);
  await daemon.end();
  const next = await nextStart(node);
  await expectSaid(next, /hidden by a mount/);
  await next.end();
  node.unmount(daemon.state);
  await expectServed(await node.daemon(), bodies);
});

test("a log that is emptied is damage at once, and what was there is kept", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  await add(daemon, "a", "b");
  truncateSync(join(daemon.state, "holdfast.db-wal"), 0);
  await expectSaid(daemon, /holdfast\.db-wal was cut to 0 bytes while the daemon was writing it/);
  await daemon.end();
  await expectSaid(await nextStart(node), /put aside earlier and not rebuilt yet/);
});

test.each(["removed", "replaced by an older one"])(
  "a log that is %s is written anew, and nothing is lost",
  async (how) => {
    const node = new StandaloneNode();
    const daemon = await node.daemon();
    const log = join(daemon.state, "holdfast.db-wal");
    const older = readFileSync(log);
    const bodies = await add(daemon, "a", "b");
    rmSync(log);
    if (how !== "removed") writeFileSync(log, older);
    await until(() => daemon.log.includes("was removed or replaced"), "the daemon to notice");
    await expectServed(daemon, bodies);
    for (const [id, body] of await add(daemon, "c")) bodies.set(id, body);
    await daemon.end("SIGKILL");
    await expectServed(await node.daemon(), bodies);
  },
);

test.each([
  [
    "written over",
    (from: string, to: string) => copyFileSync(from, to),
    /its files are an older copy: it ends at commit \d+ of \d+/,
  ],
  [
    "replaced",
    (from: string, to: string) => {
      copyFileSync(from, `${to}.copy`);
      renameSync(`${to}.copy`, to);
    },
    /holdfast\.db is another file now/,
  ],
] as const)("a database that is %s with an older copy is said, also by the next start", async (_how, put, says) => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  await add(first, "a", "b");
  await first.end();
  const file = join(first.state, "holdfast.db");
  copyFileSync(file, node.path("older"));
  const daemon = await node.daemon();
  await add(daemon, "c", "d");
  await daemon.end();
  const third = await node.daemon();
  put(node.path("older"), file);
  await expectSaid(third, says);
  await third.end("SIGKILL");
  await expectSaid(await nextStart(node), /an older copy|put aside earlier/);
});

test("a whole directory of earlier is said, though its files agree with each other", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  await add(daemon, "a", "b");
  command("cp", "-a", daemon.state, node.path("earlier"));
  await add(daemon, "c", "d");
  await daemon.end("SIGKILL");
  rmSync(daemon.state, { recursive: true });
  renameSync(node.path("earlier"), daemon.state);
  const next = await nextStart(node);
  await expectSaid(next, /its files are an older copy/);
  expect(existsSync(join(daemon.state, "rebuild-required"))).toBe(true);
});

test("what the boot knows is written where the socket's directory is yet to be made, and its lack is no fault", async () => {
  const node = new StandaloneNode();
  const socket = node.path("run", "holdfast", "s.sock");
  const daemon = await node.daemon({ args: ["--socket", socket], wait: false });
  await until(() => existsSync(socket), "the socket");
  expect(existsSync(`${socket}.state`)).toBe(true);
  await daemon.end();
  expect(daemon.log).not.toContain('"level":50');

  // A directory in its place cannot be written as a file.
  const other = await node.daemon({ wait: false });
  await other.end("SIGKILL");
  rmSync(`${other.socket}.state`, { force: true });
  mkdirSync(`${other.socket}.state`);
  const third = await node.daemon();
  const bodies = await add(third, "a");
  await until(() => third.log.includes("s.sock.state cannot be written"), "the word of it");
  await expectServed(third, bodies);
  expect(third.log.match(/cannot be written/g)).toHaveLength(1);
});
