/** A state directory and a socket belong to one daemon; another one is refused, and harms nothing. */

import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { networkFilesystemName } from "../../store/journal/files/network-filesystem.ts";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { ended, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue");

async function addMany(daemon: TestDaemon, prefix: string): Promise<Map<string, string>> {
  const bodies = new Map<string, string>();
  for (let index = 0; index < 10; index++) {
    const answer = await postCni(daemon, "ADD", `${prefix}-${index}`, { config: CONFIG });
    expect(answer.status, answer.body).toBe(200);
    bodies.set(`${prefix}-${index}`, answer.body);
  }
  return bodies;
}

/** The daemon serves on, and so does the next one on its directory. */
async function expectUnharmed(node: StandaloneNode, daemon: TestDaemon, bodies: Map<string, string>): Promise<void> {
  for (const [id, body] of await addMany(daemon, "after")) bodies.set(id, body);
  await expectSound(daemon);
  await daemon.end("SIGKILL");
  const next = await node.daemon();
  await expectSound(next);
  expect(await attachedTo(next, "blue")).toEqual([...bodies.keys()].sort());
  for (const [id, body] of bodies) expect((await postCni(next, "ADD", id, { config: CONFIG })).body).toBe(body);
}

test.each([
  ["garbage", (path: string) => writeFileSync(path, "x".repeat(10_000))],
  ["zeroes", (path: string) => writeFileSync(path, Buffer.alloc(5_000))],
  [
    "another database",
    (path: string) => {
      const db = new Database(path);
      db.exec("PRAGMA journal_mode = WAL; CREATE TABLE other (id INTEGER)");
      db.close();
    },
  ],
])("a lock file with %s in it is taken, and one that a daemon has is not", async (_what, write) => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  const bodies = await addMany(first, "before");
  await first.end("SIGKILL");
  write(join(first.state, "holdfast.lock"));
  const daemon = await node.daemon();
  writeFileSync(join(daemon.state, "holdfast.lock"), "x".repeat(10_000), { flag: "r+" });
  const second = await node.daemon({ args: ["--socket", node.path("second.sock")], wait: false });
  const { code, log } = await ended(second);
  expect({ code, log }).toEqual({
    code: 1,
    log: expect.stringContaining("is in use by another holdfast daemon"),
  });
  await expectUnharmed(node, daemon, bodies);
});

test.each([
  ["as it is", () => {}],
  ["its log removed under the first", (state: string) => rmSync(join(state, "holdfast.db-wal"))],
])("a second daemon on a state directory in use, %s, is refused with the directory's name", async (_what, meddle) => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const bodies = await addMany(daemon, "before");
  // The first one notices within a second or two that its log is gone, and begins another one.
  const filesThere = () => readdirSync(daemon.state).filter((name) => name !== "holdfast.db-wal");
  const before = filesThere().sort();
  meddle(daemon.state);
  const isWhole = existsSync(join(daemon.state, "holdfast.db-wal"));
  const second = await node.daemon({ args: ["--socket", node.path("second.sock")], wait: false });
  const { code, log } = await ended(second);
  expect({ code, log }).toEqual({
    code: 1,
    log: expect.stringContaining(`state directory ${daemon.state} is in use by another holdfast daemon`),
  });
  expect(existsSync(node.path("second.sock"))).toBe(false);
  await until(async () => filesThere().sort().join() === before.join(), `no files but ${before.join()}`);
  if (isWhole) await expectUnharmed(node, daemon, bodies);
  else {
    // Whichever log it writes, one without a name or the new one: ended in order, everything is in the database.
    for (const [id, body] of await addMany(daemon, "after")) bodies.set(id, body);
    await daemon.end();
    expect(await attachedTo(await node.daemon(), "blue")).toEqual([...bodies.keys()].sort());
  }
});

test("a second daemon on a socket in use is refused with the socket's name, and the first keeps serving", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const bodies = await addMany(daemon, "before");
  const second = await node.daemon({ args: ["--state", node.path("other")], wait: false });
  expect(await ended(second)).toEqual({
    code: 1,
    log: expect.stringContaining(`another daemon is serving ${daemon.socket}`),
  });
  await expectUnharmed(node, daemon, bodies);
});

test("a socket that a killed daemon left is replaced", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  await first.end("SIGKILL");
  expect(statSync(first.socket).isSocket()).toBe(true);
  const daemon = await node.daemon();
  expect(statSync(daemon.socket).mode & 0o777).toBe(0o600);
});

test("another program's socket that is served is not taken over", async () => {
  const node = new StandaloneNode();
  const server = createServer().listen(node.path("s.sock"));
  await new Promise((resolve) => server.once("listening", resolve));
  const { code, log } = await ended(await node.daemon({ wait: false }));
  expect({ code, log }).toEqual({
    code: 1,
    log: expect.stringMatching(/another daemon is serving .*s\.sock/),
  });
  expect(existsSync(node.path("s.sock"))).toBe(true);
  server.close();
});

test("what is not a socket is not replaced", async () => {
  const node = new StandaloneNode();
  writeFileSync(node.path("s.sock"), "precious");
  const { code, log } = await ended(await node.daemon({ wait: false }));
  expect({ code, log }).toEqual({
    code: 1,
    log: expect.stringMatching(/s\.sock exists and is not a socket/),
  });
  expect(statSync(node.path("s.sock")).size).toBe("precious".length);
});

test.each([
  [0x6969, "nfs"],
  [0xff534d42, "cifs"],
  [-11317950, "cifs"], // the same as a 32-bit long has it
  [0xfe534d42, "smb2"],
  [0x00c36400, "ceph"],
  [0x01021997, "9p"],
  [0x0bd00bd0, "lustre"],
])("state on file system 0x%s is refused as %s", (type, name) => {
  expect(networkFilesystemName(type)).toBe(name);
});

test.each([
  ["ext4", 0xef53],
  ["xfs", 0x58465342],
  ["btrfs", 0x9123683e],
  ["tmpfs", 0x01021994],
  ["overlay", 0x794c7630],
  ["zfs", 0x2fc12fc1],
])("state on %s is served", (_name, type) => {
  expect(networkFilesystemName(type)).toBeNull();
});
