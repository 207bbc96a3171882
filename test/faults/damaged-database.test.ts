/**
 * A database that cannot be trusted is put aside, never deleted and never replaced by an empty one; an operator chooses
 * how to go on.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { badBackups } from "./bad-backups.ts";
import { DAMAGES, type Damage } from "./damage.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/24,fd10::/64" });

async function add(daemon: TestDaemon, id: string): Promise<string> {
  const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
  expect(answer.status, answer.body).toBe(200);
  return answer.body;
}

/** Content of every file of the state directory by name, as digests; without those that say nothing of the database. */
function contents(state: string): Map<string, string> {
  const names = readdirSync(state).filter(
    (name) => !["reserve", "holdfast.lock"].includes(name) && statSync(join(state, name)).isFile(),
  );
  const digest = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(state, name)))
      .digest("hex");
  return new Map(names.map((name) => [name, digest(name)]));
}

/** A daemon that has served, ended, and whose database was then harmed. Returns what the state directory held. */
async function damaged(node: StandaloneNode, damage: Damage): Promise<Map<string, string>> {
  const daemon = await node.daemon();
  for (let index = 0; index < 60; index++) await add(daemon, `c-${index}`);
  await daemon.end(damage.after);
  damage.inflict(daemon.state);
  return contents(daemon.state);
}

async function startInRebuildState(node: StandaloneNode): Promise<TestDaemon> {
  const daemon = await node.daemon({ wait: false });
  await until(async () => (await daemon.get("/healthz").catch(() => null))?.status === 200, "the socket");
  return daemon;
}

async function expectRebuildRequired(daemon: TestDaemon, says: RegExp): Promise<void> {
  const ready = await daemon.get("/readyz");
  expect({ status: ready.status, ...ready.json() }).toMatchObject({
    status: 503,
    code: "NOT_READY",
    message: expect.stringMatching(/put aside|damaged/),
  });
  expect(ready.json().message).toMatch(says);
  expect(ready.json().message).toMatch(/holdfast rebuild --from \S+, (or from a newer BACKUP, )?or --empty/);
  const refused = await postCni(daemon, "ADD", "new", { config: CONFIG });
  expect({ status: refused.status, ...refused.json() }).toMatchObject({ status: 503, code: 11 });
  const status = await postCni(daemon, "STATUS", "", { config: { ...CONFIG, cniVersion: "1.1.0" } });
  expect({ status: status.status, ...status.json() }).toMatchObject({ status: 503, code: 50 });
}

const NAMED = DAMAGES.map((damage) => [damage.what, damage.after, damage] as const);

test.each(NAMED)(
  "%s after %s: the database is put aside and ADDs are refused, also after a restart",
  async (_what, _after, damage) => {
    const node = new StandaloneNode();
    const before = await damaged(node, damage);
    const daemon = await startInRebuildState(node);
    await expectRebuildRequired(daemon, damage.says);
    const kept = new Set(contents(daemon.state).values());
    for (const [name, digest] of before) expect(kept, `content of ${name}`).toContain(digest);
    await daemon.end();
    const again = await startInRebuildState(node);
    await expectRebuildRequired(again, /put aside earlier and not rebuilt yet/);
    expect(new Set(contents(again.state).values())).toEqual(kept);
    await again.end("SIGKILL");
    await expectRebuildRequired(await startInRebuildState(node), /put aside earlier and not rebuilt yet/);
  },
);

test("a rebuild refuses bad backups without a change, and after one from a good backup its answers hold and DELs since then count", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  const bodies = new Map<string, string>();
  for (let index = 0; index < 20; index++) bodies.set(`c-${index}`, await add(first, `c-${index}`));
  const backup = node.path("good.backup");
  expect((await first.post("/v1/backup", { path: backup })).status).toBe(200);
  await add(first, "after-backup");
  await first.end();
  DAMAGES[1]?.inflict(first.state);

  const daemon = await startInRebuildState(node);
  const untouched = contents(daemon.state);
  const del = await daemon.cni("DEL", "c-7", { config: CONFIG });
  expect(del).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("goes to the spool") });
  for (const bad of badBackups(node, backup)) {
    const answer = await daemon.post("/v1/rebuild", { from: bad.path });
    expect({ what: bad.what, status: answer.status, ...answer.json() }).toMatchObject({
      what: bad.what,
      status: 400,
      code: "REQUEST_INVALID",
      message: expect.stringMatching(bad.says),
    });
    expect(contents(daemon.state), bad.what).toEqual(untouched);
  }
  await expectRebuildRequired(daemon, /damaged/);

  expect((await daemon.post("/v1/rebuild", { from: backup })).json()).toEqual({ rebuilt: true });
  expect((await daemon.get("/readyz")).status).toBe(200);
  expect((await daemon.cli("check")).stdout).toContain(
    `from ${backup}: containers that were attached after that backup was made, and before the rebuild, are not known`,
  );
  bodies.delete("c-7");
  expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());
  for (const [id, body] of bodies) expect(await add(daemon, id)).toBe(body);
  await expectSound(daemon);
  const kept = [...contents(daemon.state).values()];
  for (const [name, digest] of untouched) if (name.includes(".damaged-")) expect(kept, name).toContain(digest);
  const sound = await daemon.post("/v1/rebuild", { empty: true });
  expect({ status: sound.status, ...sound.json() }).toMatchObject({
    status: 400,
    message: expect.stringMatching(/sound/),
  });
  await daemon.end("SIGKILL");
  expect(await attachedTo(await node.daemon(), "blue")).toEqual([...bodies.keys()].sort());
});

test("an empty rebuild, which the operator asked for, serves again and keeps the database that was put aside", async () => {
  const node = new StandaloneNode();
  const before = await damaged(node, DAMAGES[0] as Damage);
  const daemon = await startInRebuildState(node);
  for (const body of [{}, { empty: false }, { from: "relative.backup" }, { from: "/x", empty: true }]) {
    expect((await daemon.post("/v1/rebuild", body)).status).toBe(400);
  }
  expect((await daemon.post("/v1/rebuild", { empty: true })).json()).toEqual({ rebuilt: true });
  expect(await attachedTo(daemon, "blue")).toEqual([]);
  await add(daemon, "new");
  await expectSound(daemon);
  expect([...contents(daemon.state).values()]).toContain(before.get("holdfast.db"));
});

test("a crash while a database is put aside leaves no file that a rebuild would mix or delete", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  await add(first, "old");
  const backup = node.path("good.backup");
  await first.post("/v1/backup", { path: backup });
  for (let index = 0; index < 30; index++) await add(first, `c-${index}`);
  await first.end("SIGKILL");
  // The marker comes first, then the renames: here is a crash between them.
  const before = contents(first.state);
  writeFileSync(join(first.state, "rebuild-required"), "");
  const daemon = await startInRebuildState(node);
  expect((await daemon.post("/v1/rebuild", { from: backup })).json()).toEqual({ rebuilt: true });
  expect(await attachedTo(daemon, "blue")).toEqual(["old"]);
  await expectSound(daemon);
  const kept = [...contents(daemon.state).values()];
  for (const name of ["holdfast.db", "holdfast.db-wal"]) expect(kept).toContain(before.get(name));
});

test("of two daemons that wait on one directory the second does not rebuild over the first", async () => {
  const node = new StandaloneNode();
  await damaged(node, DAMAGES[0] as Damage);
  const daemon = await startInRebuildState(node);
  const elsewhere = { directory: node.path("second"), args: ["--state", daemon.state] };
  const second = await node.daemon({ ...elsewhere, wait: false });
  await until(async () => (await second.get("/healthz").catch(() => null))?.status === 200, "the socket");
  expect((await daemon.post("/v1/rebuild", { empty: true })).json()).toEqual({ rebuilt: true });
  const body = await add(daemon, "new");
  const refused = await second.post("/v1/rebuild", { empty: true });
  expect({ status: refused.status, body: refused.body }).toEqual({
    status: 400,
    body: expect.stringContaining("rebuilt by another daemon"),
  });
  expect(await add(daemon, "new")).toBe(body);
  await expectSound(daemon);
});
