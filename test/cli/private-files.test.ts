/**
 * Applied Secrets are in the database: whatever rights a state directory came with, no other user of the machine reads
 * them.
 */
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { ended, StandaloneNode } from "../faults/standalone-node.ts";
import { network, run, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot, requireTool } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";

const CONFIG = network("blue");
const OTHER_USER = 65_534;
const AS_OTHER_USER = ["setpriv", `--reuid=${OTHER_USER}`, `--regid=${OTHER_USER}`, "--clear-groups"];
/** Root without capabilities and with the usual umask, as in the DaemonSet. */
const IN_DAEMONSET = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

beforeEach((context) => {
  requireRoot(context);
  requireTool(context, ...(AS_OTHER_USER as [string]), "true");
});

/** Every file of the node that another user of the machine can read, by its path in the node's directory. */
async function readableByOthers(node: StandaloneNode): Promise<string[]> {
  const [command, ...args] = [...AS_OTHER_USER, "find", node.directory, "-type", "f", "-readable"];
  // It fails where it may not enter, and names the rest.
  const { stdout } = await run(command as string, [...args, "-printf", "%P\\n"]);
  return stdout.split("\n").filter(Boolean).sort();
}

/** A node whose state directory somebody has made before the daemon, with these rights; its parent is open to all. */
function nodeWithDirectory(mode: number): StandaloneNode {
  const node = new StandaloneNode();
  chmodSync(node.directory, 0o755);
  mkdirSync(node.path("state"));
  chmodSync(node.path("state"), mode);
  return node;
}

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8);

/** All files in the state directory that are not for their owner alone. */
const openFiles = (node: StandaloneNode) =>
  readdirSync(node.path("state")).filter((name) => {
    const stat = statSync(node.path("state", name));
    return stat.isFile() && (stat.mode & 0o777) !== 0o600;
  });

async function findings(daemon: TestDaemon): Promise<{ message: string; hint: string }[]> {
  return (await daemon.get("/v1/check")).json().findings;
}

async function applySecret(daemon: TestDaemon): Promise<void> {
  const manifest = join(daemon.directory, "secret.yaml");
  writeFileSync(
    manifest,
    `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, stringData: {user-data: SUPERSECRET}}`,
    { mode: 0o600 },
  );
  const { code, stderr } = await daemon.cli("apply", "-f", manifest);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect((await daemon.cni("ADD", "c1", { config: CONFIG })).code).toBe(0);
}

test.each([
  ["0755, as mkdir and the kubelet make it", 0o755, []],
  ["0777, as a volume may be", 0o777, []],
  ["0755, by root without capabilities as in the DaemonSet", 0o755, IN_DAEMONSET],
])("a directory of mode %s is closed with one line of the log", async (_what, mode, wrapper) => {
  const node = nodeWithDirectory(mode);
  writeFileSync(node.path("public"), "");
  const daemon = await node.daemon({ wrapper });
  await applySecret(daemon);
  expect(await readableByOthers(node)).toEqual(["public"]);
  expect(modeOf(daemon.state)).toBe("700");
  expect(openFiles(node)).toEqual([]);
  expect(daemon.log.split("\n").filter((line) => line.includes("open to others"))).toEqual([
    expect.stringContaining(
      `state directory ${daemon.state} was open to others; closed: the directory (mode 0${mode.toString(8)})`,
    ),
  ]);
  expect(await findings(daemon)).toEqual([]);
});

test("files that others could read are closed when they are opened: database, log, spool, and what was put aside", async () => {
  const node = nodeWithDirectory(0o755);
  const first = await node.daemon();
  await applySecret(first);
  await first.end("SIGKILL");
  copyFileSync(join(first.state, "holdfast.db"), join(first.state, "holdfast.db.damaged-2026-01-01"));
  writeFileSync(join(first.spool, "00000000000000000001-1-0.json.bad"), "");
  for (const name of readdirSync(first.state)) chmodSync(join(first.state, name), 0o755);
  for (const name of readdirSync(first.spool)) chmodSync(join(first.spool, name), 0o644);
  chmodSync(first.state, 0o755);
  expect(await readableByOthers(node)).toContain("state/holdfast.db-wal");

  const daemon = await node.daemon();
  expect(await readableByOthers(node)).toEqual([]);
  expect(openFiles(node)).toEqual([]);
  expect(modeOf(daemon.spool)).toBe("700");
  expect(daemon.log).toMatch(/closed: the directory \(mode 0755\), .*holdfast\.db-wal \(mode 0755\)/);
  expect((await daemon.cni("CHECK", "c1", { config: CONFIG })).code).toBe(0);
});

test("a directory with files of somebody else stays as it is and is named, and every file in it is private", async () => {
  const node = nodeWithDirectory(0o755);
  writeFileSync(node.path("state", "notes.txt"), "");
  const daemon = await node.daemon();
  await applySecret(daemon);
  expect((await daemon.post("/v1/backup", { path: join(daemon.state, "holdfast-today.db") })).status).toBe(200);
  expect(await readableByOthers(node)).toEqual(["state/notes.txt"]);
  expect(modeOf(daemon.state)).toBe("755");
  const { code, stdout } = await daemon.cli("check");
  expect(code).toBe(1);
  expect(stdout).toContain(
    `users other than the daemon's can enter the state directory ${daemon.state} (mode 0755, user 0); it was left so because notes.txt in it is not Holdfast's`,
  );
  expect(stdout).toContain(`chown 0 ${daemon.state} && chmod 0700 ${daemon.state}`);

  // A backup that everybody may read becomes a database that only the owner reads; what it replaces stays private too.
  chmodSync(join(daemon.state, "holdfast-today.db"), 0o644);
  const rebuilt = await daemon.post("/v1/rebuild", {
    from: join(daemon.state, "holdfast-today.db"),
    replace: true,
  });
  expect(rebuilt.status, rebuilt.body).toBe(200);
  expect(openFiles(node)).toEqual(["holdfast-today.db", "notes.txt"]);
  expect((await findings(daemon)).map(({ message }) => message)).toEqual([
    expect.stringContaining("can enter the state directory"),
    `users other than the daemon's can read ${daemon.state}/holdfast-today.db (mode 0644, user 0)`,
  ]);
  chmodSync(join(daemon.state, "holdfast-today.db"), 0o600);
  rmSync(join(daemon.state, "notes.txt"));
  chmodSync(daemon.state, 0o700);
  expect(await findings(daemon)).toEqual([]);
});

test("a damaged database is put aside for its owner alone, and so is what comes after it", async () => {
  const node = nodeWithDirectory(0o755);
  writeFileSync(node.path("state", "notes.txt"), "");
  writeFileSync(node.path("state", "holdfast.db"), "SUPERSECRET, but not a database");
  const daemon = await node.daemon({ wait: false });
  await until(async () => (await daemon.get("/healthz").catch(() => null))?.status === 200, "the socket");
  expect((await daemon.post("/v1/rebuild", { empty: true })).status).toBe(200);
  expect(await readableByOthers(node)).toEqual(["state/notes.txt"]);
  expect(readdirSync(daemon.state)).toContainEqual(expect.stringMatching(/^holdfast\.db\.damaged-/));
});

test.each<[string, (node: StandaloneNode) => void, string]>([
  [
    "another user",
    (node) => {
      chownSync(node.path("state"), OTHER_USER, OTHER_USER);
    },
    "it is another user's",
  ],
  ["everybody, as /tmp", (node) => chmodSync(node.path("state"), 0o1777), "it is shared"],
])("a directory of %s is not changed, but named", async (_whose, give, why) => {
  const node = nodeWithDirectory(0o755);
  give(node);
  const before = modeOf(node.path("state"));
  const daemon = await node.daemon();
  expect(modeOf(daemon.state)).toBe(before);
  expect(daemon.log).toContain(why);
  expect((await findings(daemon)).map(({ message }) => message)).toEqual([expect.stringContaining(why)]);
});

test("what a symbolic link leads to keeps its rights, as a file and as the directory", async () => {
  const node = nodeWithDirectory(0o755);
  writeFileSync(node.path("public"), "");
  symlinkSync(node.path("public"), node.path("state", "holdfast.db.damaged-2026-01-01"));
  const first = await node.daemon();
  expect([modeOf(node.path("public")), modeOf(first.state)]).toEqual(["644", "700"]);
  await first.end();

  renameSync(node.path("state"), node.path("elsewhere"));
  symlinkSync(node.path("elsewhere"), node.path("state"));
  chmodSync(node.path("elsewhere"), 0o755);
  const daemon = await node.daemon();
  expect([modeOf(node.path("public")), modeOf(daemon.state)]).toEqual(["644", "755"]);
  expect((await findings(daemon)).map(({ message }) => message)).toEqual([
    expect.stringContaining("it was left so because it is a symbolic link"),
    expect.stringContaining("holdfast.db.damaged-2026-01-01 (mode 0644, user 0)"),
  ]);
});

test("a daemon that cannot read its directory says so, and changes no rights", async () => {
  const node = nodeWithDirectory(0o733);
  const daemon = await node.daemon({ wrapper: AS_OTHER_USER, wait: false });
  expect(await ended(daemon)).toEqual({
    code: 1,
    log: expect.stringContaining(`state directory ${daemon.state} cannot be used: EACCES`),
  });
  expect(modeOf(node.path("state"))).toBe("733");
});
