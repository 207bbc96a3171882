/** A state directory that cannot be written: said at start, survived while running. */
import { mkdirSync, readdirSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";
import { FaultyDisk } from "./faulty-disk.ts";
import { command, ended, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue");

beforeEach(requireRoot);

async function add(daemon: TestDaemon, id: string): Promise<string> {
  const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
  expect(answer.status, answer.body).toBe(200);
  return answer.body;
}

test.each([
  ["served before", true],
  ["new", false],
])(
  "a read-only state directory (%s) ends the start with exit 1, its name, the cause and what to do",
  async (_what, servedBefore) => {
    const node = new StandaloneNode();
    const state = node.path("state");
    node.mountTmpfs(state, "24m");
    if (servedBefore) {
      const daemon = await node.daemon();
      await add(daemon, "kept");
      await daemon.end();
    }
    command("mount", "-o", "remount,ro", state);
    const { code, log } = await ended(await node.daemon({ wait: false }));
    expect({ code, log }).toEqual({
      code: 1,
      log: expect.stringContaining(`state directory ${state} cannot be used`),
    });
    expect(log).toMatch(/read-only/i);
    expect(log).toMatch(/give another --state/);
    expect(log.trim().split("\n")).toHaveLength(1);

    command("mount", "-o", "remount,rw", state);
    const daemon = await node.daemon();
    expect(await attachedTo(daemon, "blue")).toEqual(servedBefore ? ["kept"] : []);
  },
);

test("a state directory that cannot be made in a read-only place ends the start in the same way", async () => {
  const node = new StandaloneNode();
  const place = node.path("place");
  mkdirSync(place);
  node.mountTmpfs(place, "1m");
  command("mount", "-o", "remount,ro", place);
  const { code, log } = await ended(await node.daemon({ args: ["--state", `${place}/state`], wait: false }));
  expect({ code, log }).toEqual({ code: 1, log: expect.stringContaining(`${place}/state`) });
  expect(log).toMatch(/give another --state/);
});

test("on a file system that turned read-only ADDs are told to retry and DELs are spooled elsewhere, and all is done later", async () => {
  const node = new StandaloneNode();
  const state = node.path("state");
  const spool = node.path("spool");
  node.mountTmpfs(state, "24m");
  const disk = new FaultyDisk(node);
  const daemon = await node.daemon({ env: disk.env, args: ["--spool", spool] });
  const kept = await add(daemon, "kept");
  await add(daemon, "gone");

  // The kernel refuses to remount while a file is open for writing: the error makes the daemon close its database.
  disk.fail({ call: "write", errno: "EIO" });
  expect((await postCni(daemon, "ADD", "new", { config: CONFIG })).json()).toMatchObject({ code: 11 });
  await until(() => {
    try {
      command("mount", "-o", "remount,ro", state);
      return true;
    } catch {
      return false;
    }
  }, "the moment between two attempts to open the database");
  disk.mend();

  await until(async () => /read-only/i.test((await daemon.get("/readyz")).body), "the daemon to notice");
  const refused = await daemon.cni("ADD", "new", { config: CONFIG });
  expect(refused.json()).toMatchObject({ code: 11, msg: expect.stringContaining(state) });
  const del = await daemon.cni("DEL", "gone", { config: CONFIG, spool });
  expect(del).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("goes to the spool") });
  expect(readdirSync(spool)).toHaveLength(1);

  command("mount", "-o", "remount,rw", state);
  await until(async () => (await daemon.get("/readyz")).status === 200, "recovery");
  await until(() => readdirSync(spool).length === 0, "the spool to be drained");
  expect(await attachedTo(daemon, "blue")).toEqual(["kept"]);
  expect(await add(daemon, "kept")).toBe(kept);
  await add(daemon, "new");
  await expectSound(daemon);
});
