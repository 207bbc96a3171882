/**
 * A plugin binary and a daemon that see two boot IDs on one machine, as on a system container: nothing is given or ended on the
 * strength of a boot ID that only one of them sees, and the shipped unit lets both see the same.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { forgetWhatWas } from "../../store/journal/files/state-files.ts";
import { type CniAnswer, network, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { BOOT_ID } from "./wire.ts";

const UNIT = join(import.meta.dirname, "../../deploy/systemd/holdfast.service");
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

async function findings(daemon: TestDaemon): Promise<string[]> {
  const { findings: found } = (await daemon.get("/v1/check")).json();
  return found.map(
    ({ invariant, message }: { invariant: string; message: string }) => `${invariant}: ${message}`,
  );
}

/** Changes the database of a daemon that has ended, and lets the next one take it as it is. */
function edit(node: StandaloneNode, ...statements: string[]): void {
  const db = new Database(node.path("state", "holdfast.db"));
  for (const statement of statements) expect(db.prepare(statement).run().changes).toBeGreaterThan(0);
  db.close();
  forgetWhatWas(node.path("state"));
}

test("different boot IDs of daemon and plugin binary refuse an ADD with both named, and a DEL is carried out", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  const before = addressOf(await first.cni("ADD", "before", { config: BLUE }));
  await first.end();

  const file = otherBoot(node);
  const daemon = await node.daemon({ args: ["--boot-id-file", file] });
  const refused = await daemon.cni("ADD", "a", { config: BLUE });
  expect(refused.json()).toMatchObject({ code: 11, msg: expect.stringContaining(BOOT_ID) });
  expect(refused.json().msg).toContain(OTHER_BOOT);
  expect(refused.json().details).toContain("--boot-id-file");
  expect(await attachedTo(daemon, "blue")).toEqual([]);
  expect(await findings(daemon)).toEqual([expect.stringMatching(`^boot: .*${BOOT_ID}.*${OTHER_BOOT}`)]);
  const status = await daemon.cni("STATUS", "", { config: BLUE });
  expect(status.json()).toMatchObject({ code: 50, msg: expect.stringContaining(OTHER_BOOT) });
  expect((await daemon.cni("CHECK", "a", { config: BLUE })).json()).toMatchObject({ code: 11 });

  const env = { HOLDFAST_BOOT_ID_FILE: file };
  // Refused for another reason, by which it is seen that both agree now.
  expect((await daemon.cni("CHECK", "a", { config: BLUE, env })).code).not.toBe(0);
  expect(await findings(daemon)).toEqual([]);
  expect(addressOf(await daemon.cni("ADD", "a", { config: BLUE, env }))).not.toBe(before);
  await expectSound(daemon);
  expect((await daemon.cni("DEL", "a", { config: BLUE })).code).toBe(0);
  expect(await attachedTo(daemon, "blue")).toEqual([]);
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

test("attachments with a boot ID that only the plugin binary saw survive a restart of the daemon", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  const held = [];
  for (const id of ["a", "b"]) held.push(addressOf(await first.cni("ADD", id, { config: BLUE })));
  await first.end();
  // As a release that did not compare has recorded them; the database says that this boot has been served.
  edit(node, `UPDATE uses SET boot_id = '${OTHER_BOOT}'`);
  const daemon = await node.daemon();
  await untilSaid(() => daemon.log, `2 attachments say that this is boot ${OTHER_BOOT}`);
  expect(await attachedTo(daemon, "blue")).toEqual(["a", "b"]);
  expect(held).not.toContain(addressOf(await daemon.cni("ADD", "c", { config: BLUE })));
  expect((await daemon.cni("DEL", "a", { config: BLUE })).code).toBe(0);
  expect(await attachedTo(daemon, "blue")).toEqual(["b", "c"]);
  await expectSound(daemon);
});

test("a database without a boot ID keeps its attachments when one of their network namespaces still exists", async (context) => {
  requireRoot(context);
  const node = new StandaloneNode();
  const first = await node.daemon();
  await first.cni("ADD", "seen", { config: BLUE, netns: netnsIn(node) });
  await first.cni("ADD", "unseen", { config: BLUE });
  await first.end();
  edit(node, `UPDATE uses SET boot_id = '${OTHER_BOOT}'`, "DELETE FROM meta WHERE key = 'boot'");
  const daemon = await node.daemon();
  expect(await attachedTo(daemon, "blue")).toEqual(["seen", "unseen"]);
  await daemon.end();

  // A clock that has begun at zero since: the machine was restarted, and somebody made a namespace of that name again.
  const late = "UPDATE uses SET boot_us = 9000000000000000";
  edit(node, `${late}, boot_id = '${OTHER_BOOT}'`, `UPDATE meta SET value = 'x' WHERE key = 'boot'`);
  const restarted = await node.daemon();
  expect(await attachedTo(restarted, "blue")).toEqual([]);
  await untilSaid(() => restarted.log, "2 attachments of earlier boots ended");
});

/** Lines of the shipped unit with that key, the run directory replaced by one of the node. */
function unitLines(key: string, runDirectory: string): string[] {
  return readFileSync(UNIT, "utf8")
    .split("\n")
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1).replaceAll("/run/holdfast", runDirectory));
}

test("in a system container the shipped unit's daemon sees the plugin binary's boot ID, and a restart ends nothing", async (context) => {
  requireRoot(context);
  const node = new StandaloneNode();
  const run = node.path("run");
  mkdirSync(run);
  const inMachine = [
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"',
  ];
  const machine = [...inMachine, otherBoot(node)];
  const quoted = (words: readonly string[]) =>
    words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
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
  const env = Object.fromEntries(
    unitLines("Environment", run).map((line) => line.split("=") as [string, string]),
  );
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

  // Without that line the daemon sees the kernel's: the first ADD is refused, and nothing is ended.
  const bare = await node.daemon();
  expect((await bare.cni("ADD", "d", { config: BLUE, shim })).json()).toMatchObject({ code: 11 });
  expect(await attachedTo(bare, "blue")).toEqual(["a", "b", "c"]);
});
