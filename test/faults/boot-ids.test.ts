/**
 * Which boot it is, the daemon says in a file beside its socket: whoever reaches the socket counts by the same one,
 * also on a system container, where processes see two kernel boot IDs.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { type CniAnswer, forgetBoot, network, runShim } from "../harness/daemon.ts";
import { acceptEdits } from "../harness/edited-database.ts";
import { requireRoot } from "../harness/needs.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { BOOT_ID } from "./wire.ts";

const UNIT = join(import.meta.dirname, "../../deploy/systemd/holdfast.service");
const TMPFS = 0x01021994;
const OTHER_BOOT = "22222222-3333-4444-8555-666666666666";
const BLUE = network("blue", { subnets: "10.10.0.0/24", cooldownSeconds: 0 }, { cniVersion: "1.1.0" });

let count = 0;
const netnsIn = (node: StandaloneNode) => node.addNetns(`holdfast-test-boot-${process.pid}-${count++}`);

/** A file with another boot ID than this machine's. */
function otherBoot(node: StandaloneNode): string {
  const file = node.path("other-boot");
  writeFileSync(file, `${OTHER_BOOT}\n`);
  return file;
}

function addressOf(answer: CniAnswer): string {
  expect(answer.code, answer.stdout).toBe(0);
  return answer.json().ips[0].address;
}

/** The boot that the only DEL in a spool says. */
function bootOfDel(spool: string): string {
  const [file, ...more] = readdirSync(spool);
  expect(more).toEqual([]);
  return JSON.parse(readFileSync(join(spool, file as string), "utf8")).bootId;
}

test("the daemon says beside its socket which boot it is, and the plugin binary stamps its requests with it", async () => {
  const node = new StandaloneNode();
  const file = otherBoot(node);
  const away = { socket: node.path("s.sock"), spool: node.path("spool"), config: BLUE };
  expect((await runShim("DEL", "a", away)).code).toBe(0);
  expect(bootOfDel(away.spool)).toBe(BOOT_ID);
  rmSync(away.spool, { recursive: true });

  const daemon = await node.daemon({ args: ["--boot-id-file", file] });
  expect(readFileSync(node.path("s.sock.boot"), "utf8")).toBe(`${OTHER_BOOT}\n`);
  addressOf(await daemon.cni("ADD", "a", { config: BLUE }));
  await daemon.end();
  expect((await runShim("DEL", "a", away)).code).toBe(0);
  expect(bootOfDel(away.spool)).toBe(OTHER_BOOT);
});

test("in memory it is the same boot whatever the kernel's boot ID seems to be; on a disk another one is another boot", async () => {
  for (const wanted of [true, false]) {
    const node = new StandaloneNode({ inMemory: wanted });
    // Where tests have no directory on a disk the second half is the first once more.
    const inMemory = statfsSync(node.directory).type === TMPFS;
    const first = await node.daemon();
    for (const id of ["a", "b"]) addressOf(await first.cni("ADD", id, { config: BLUE }));
    await first.end();
    const daemon = await node.daemon({ args: ["--boot-id-file", otherBoot(node)] });
    expect(readFileSync(node.path("s.sock.boot"), "utf8").trim()).toBe(inMemory ? BOOT_ID : OTHER_BOOT);
    expect(await attachedTo(daemon, "blue"), daemon.log).toEqual(inMemory ? ["a", "b"] : []);
    addressOf(await daemon.cni("ADD", "c", { config: BLUE }));
    expect((await daemon.cni("DEL", "a", { config: BLUE })).code).toBe(0);
    expect(await attachedTo(daemon, "blue")).toEqual(inMemory ? ["b", "c"] : ["c"]);
    await expectSound(daemon);
  }
});

test("what somebody emptied in memory is no reboot: what runs is kept, and a DEL that came meanwhile is carried out", async () => {
  const node = new StandaloneNode({ inMemory: true });
  const first = await node.daemon();
  for (const id of ["a", "b"]) addressOf(await first.cni("ADD", id, { config: BLUE }));
  await first.end("SIGKILL");
  for (const name of ["s.sock.boot", "s.sock", "s.sock.state"]) rmSync(node.path(name));
  expect((await runShim("DEL", "a", { socket: first.socket, spool: first.spool, config: BLUE })).code).toBe(0);
  const daemon = await node.daemon();
  expect(readdirSync(daemon.spool)).toEqual([]);
  expect(await attachedTo(daemon, "blue")).toEqual(["b"]);
});

test.each([
  ["a link to the socket", (node: StandaloneNode) => symlinkSync(node.path("s.sock"), node.path("link.sock"))],
  ["a file that is gone", (node: StandaloneNode) => rmSync(node.path("s.sock.boot"))],
])("with %s a DEL that waits in the spool ends its container", async (_what, meddle) => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  addressOf(await first.cni("ADD", "a", { config: BLUE }));
  meddle(node);
  await first.end();
  const away = { socket: node.path("link.sock"), spool: first.spool, config: BLUE };
  expect((await runShim("DEL", "a", away)).code).toBe(0);
  expect(await attachedTo(await node.daemon(), "blue")).toEqual([]);
});

test("whose network namespace still exists is of this boot, whatever the daemon sees", async (context) => {
  requireRoot(context);
  const node = new StandaloneNode();
  const first = await node.daemon();
  await first.cni("ADD", "seen", { config: BLUE, netns: netnsIn(node) });
  await first.cni("ADD", "unseen", { config: BLUE });
  await first.end();
  forgetBoot(node.directory);
  const args = ["--boot-id-file", otherBoot(node)];
  const daemon = await node.daemon({ args });
  await untilSaid(() => daemon.log, `2 attachments are of boot ${BOOT_ID}`);
  expect(await attachedTo(daemon, "blue")).toEqual(["seen", "unseen"]);
  expect((await daemon.cni("DEL", "unseen", { config: BLUE })).code).toBe(0);
  await daemon.end();

  // A clock that has begun at zero since: the machine was restarted, and somebody made a namespace of that name again.
  const db = new Database(node.path("state", "holdfast.db"));
  expect(db.prepare("UPDATE uses SET boot_us = 9000000000000000").run().changes).toBeGreaterThan(0);
  db.close();
  acceptEdits(node.path("state"));
  forgetBoot(node.directory);
  const restarted = await node.daemon();
  expect(await attachedTo(restarted, "blue")).toEqual([]);
  await untilSaid(() => restarted.log, "1 attachments of earlier boots ended");
});

test("after a reboot the attachments of before are ended, and a DEL from before the daemon's start ends none of after, however late", async () => {
  const node = new StandaloneNode({ inMemory: true });
  const first = await node.daemon();
  for (const id of ["a", "b"]) addressOf(await first.cni("ADD", id, { config: BLUE }));
  await first.end("SIGKILL");
  forgetBoot(node.directory);
  const args = ["--boot-id-file", otherBoot(node)];
  const away = { socket: first.socket, spool: first.spool, config: BLUE };
  expect((await runShim("DEL", "a", away)).code).toBe(0);
  const [name] = readdirSync(first.spool) as [string];
  copyFileSync(join(first.spool, name), node.path("late"));
  const daemon = await node.daemon({ args });
  await untilSaid(() => daemon.log, "2 attachments of earlier boots ended");
  addressOf(await daemon.cni("ADD", "a", { config: BLUE }));
  renameSync(node.path("late"), join(first.spool, name));
  await until(() => readdirSync(first.spool).length === 0, "the spool to be drained");
  expect(await attachedTo(daemon, "blue")).toEqual(["a"]);
  await expectSound(daemon);
});

test("a file beside the socket that is none is named with what to do", async () => {
  const node = new StandaloneNode();
  mkdirSync(node.path("s.sock.boot"));
  const daemon = await node.daemon({ wait: false });
  await until(() => daemon.process.exitCode !== null, "its end");
  await untilSaid(() => daemon.log, `${node.path("s.sock.boot")} cannot be read or written`);
  expect(existsSync(daemon.socket)).toBe(false);
});

test("a boot ID file that cannot be read, or has no boot ID, is named with what to do", async () => {
  const node = new StandaloneNode();
  const missing = node.path("missing");
  const daemon = await node.daemon({ wait: false, args: ["--boot-id-file", missing] });
  await until(() => daemon.process.exitCode !== null, "its end");
  await untilSaid(() => daemon.log, `bootIdFile ${missing} cannot be read`);
  writeFileSync(missing, "two words\n");
  const again = await node.daemon({ wait: false, args: ["--boot-id-file", missing] });
  await until(() => again.process.exitCode !== null, "its end");
  await untilSaid(() => again.log, 'begins with "two words", which is no boot ID');
});

/** Lines of the shipped unit with that key, the run directory replaced by one of the node. */
function unitLines(key: string, runDirectory: string): string[] {
  return readFileSync(UNIT, "utf8")
    .split("\n")
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1).replaceAll("/run/holdfast", runDirectory));
}

test("in a system container the shipped unit's daemon sees the container's boot ID, and no restart ends anything", async (context) => {
  requireRoot(context);
  const node = new StandaloneNode({ inMemory: true });
  const run = node.path("run");
  mkdirSync(run);
  const inMachine = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'];
  const machine = [...inMachine, otherBoot(node)];
  const quoted = (words: readonly string[]) => words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const shim = node.path("shim");
  writeFileSync(
    shim,
    `#!/bin/sh\nexec ${quoted(machine)} ${join(import.meta.dirname, "../../dist/bin/holdfast-ipam")}\n`,
  );
  chmodSync(shim, 0o755);

  const [before, ...more] = unitLines("ExecStartPre", run).filter((line) => line.includes("boot_id"));
  expect(more).toEqual([]);
  // Outside of the sandbox, as "+" says; the daemon itself gets a /proc of its own, as a sandboxed unit does.
  expect(before?.[0]).toBe("+");
  const env = Object.fromEntries(unitLines("Environment", run).map((line) => line.split("=") as [string, string]));
  const start = () =>
    node.daemon({
      wrapper: [
        ...machine,
        "sh",
        "-c",
        `${before?.slice(1)}; exec unshare -m sh -c 'mount -t proc proc /proc && exec "$@"' sh "$@"`,
        "sh",
      ],
      env,
    });
  const daemon = await start();
  const netns = netnsIn(node);
  const given = addressOf(await daemon.cni("ADD", "a", { config: BLUE, netns, shim }));
  const unseen = addressOf(await daemon.cni("ADD", "b", { config: BLUE, shim }));
  await daemon.end();
  const again = await start();
  expect(await attachedTo(again, "blue")).toEqual(["a", "b"]);
  expect([given, unseen]).not.toContain(addressOf(await again.cni("ADD", "c", { config: BLUE, shim })));
  await again.end();

  // Without that line the daemon sees the kernel's: it is still the same boot.
  const bare = await node.daemon();
  addressOf(await bare.cni("ADD", "d", { config: BLUE, shim }));
  expect(await attachedTo(bare, "blue")).toEqual(["a", "b", "c", "d"]);
});
