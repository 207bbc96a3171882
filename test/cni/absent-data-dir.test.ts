import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { forgetBoot, TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { addressesOf, network } from "./fixtures.ts";

/** A `dataDir` that is not there is empty; one that is hidden from the daemon is not. */

let directory: string;
let bootIdFile: string;
const running: TestDaemon[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-absent-"));
  bootIdFile = join(directory, "boot");
  writeFileSync(bootIdFile, "0d4b7a52-0000-4000-8000-000000000001\n");
  mkdirSync(join(directory, "node"));
});
afterEach(async () => {
  for (const daemon of running.splice(0)) await daemon.end("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

async function start(wrapper: readonly string[] = []): Promise<TestDaemon> {
  const daemon = await TestDaemon.start({
    directory: join(directory, "node"),
    args: ["--boot-id-file", bootIdFile],
    wrapper,
  });
  running.push(daemon);
  return daemon;
}

/** Nomad's own network, but for the bridge. */
const nomad = (dataDir: string) => ({
  ...network("nomad", {
    subnets: undefined,
    ranges: [[{ subnet: "172.26.64.0/20" }]],
    routes: [{ dst: "0.0.0.0/0" }],
    dataDir,
  }),
  cniVersion: "0.4.0",
});

const OWN_PIDS = ["unshare", "-p", "-f", "--kill-child", "--mount-proc"];

/**
 * A daemon with mounts of its own, in which an empty file system lies over `path`, as in a container without the
 * machine's /run.
 */
const hiding = (path: string) => ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', path];

/** The same in a container with processes of its own. */
const inContainer = (path: string) => [...OWN_PIDS, ...hiding(path)];

/** A daemon on a machine whose process 1 is a systemd, though it is a shell: that of this one may be a container's. */
function onMachine(wrapper: readonly string[] = []): string[] {
  const init = join(directory, "systemd");
  copyFileSync("/bin/sh", init);
  chmodSync(init, 0o755);
  return [...OWN_PIDS, init, "-c", '"$@"; exit $?', "systemd", ...wrapper];
}

test("on a fresh machine ADDs get their addresses, and host-local's directory is not made for it", async (context) => {
  requireRoot(context);
  const daemon = await start(onMachine());
  for (const dataDir of [join(directory, "cni"), join(directory, "never/run/cni")]) {
    const config = { ...nomad(dataDir), name: `net${dataDir.length}` };
    expect(addressesOf(await daemon.cni("ADD", "c1", { config }))).toEqual(["172.26.64.2/20"]);
    expect(existsSync(dataDir)).toBe(false);
  }
  expect((await daemon.cli("check")).code).toBe(0);
});

test("a machine whose process 1 may be looked into tells a daemon in a container that a directory is absent", async (context) => {
  requireRoot(context);
  const run = join(directory, "run");
  mkdirSync(run);
  const daemon = await start(onMachine(hiding(run)));
  const config = nomad(join(run, "cni"));
  expect(addressesOf(await daemon.cni("ADD", "c1", { config }))).toEqual(["172.26.64.2/20"]);
});

test.for<[string, boolean]>([
  ["with addresses of host-local's", true],
  ["without", false],
])(
  "after a reboot a directory %s is gone, and ADDs get their addresses, whatever the daemon sees by then",
  async ([_what, held], context) => {
    requireRoot(context);
    const run = join(directory, "run");
    const config = nomad(join(run, "cni"));
    mkdirSync(held ? join(run, "cni/nomad") : run, { recursive: true });
    if (held) writeFileSync(join(run, "cni/nomad/172.26.64.2"), "old\r\neth0");
    const before = await start(onMachine());
    expect(addressesOf(await before.cni("ADD", "c1", { config }))).toEqual([`172.26.64.${held ? 3 : 2}/20`]);
    await before.end("SIGKILL");
    rmSync(run, { recursive: true });
    mkdirSync(run);
    writeFileSync(bootIdFile, "0d4b7a52-0000-4000-8000-000000000002\n");
    forgetBoot(join(directory, "node"));
    // In a container it could not tell an absent directory from a hidden one.
    const after = await start(inContainer(run));
    expect((await after.cni("ADD", "c2", { config })).code).toBe(0);
  },
);

test.for<[string, (path: string) => string[], string]>([
  [
    "a container that has the machine's processes",
    (path) => onMachine(hiding(path)),
    "it is on this machine, but hidden from the daemon",
  ],
  ["a container", inContainer, "the daemon sees no such directory, and cannot tell whether it is hidden from it"],
])("what host-local has on the machine is not given by a daemon in %s", async ([_what, wrapper, problem], context) => {
  requireRoot(context);
  const run = join(directory, "run");
  const dataDir = join(run, "cni");
  mkdirSync(join(dataDir, "nomad"), { recursive: true });
  writeFileSync(join(dataDir, "nomad/172.26.64.2"), "old\r\neth0");
  const daemon = await start(wrapper(run));
  const config = nomad(dataDir);
  const refused = await daemon.cni("ADD", "c1", { config });
  expect(refused.json()).toMatchObject({
    code: 7,
    msg: `${dataDir}, where host-local keeps addresses of network nomad, cannot be read: ${problem}`,
    details: expect.stringContaining("let the daemon see the directory; if no container has an address"),
  });
  expect((await daemon.cli("check")).stdout).toContain(`host-local: ${dataDir}, where host-local keeps`);
  expect((await daemon.cni("DEL", "c1", { config })).code).toBe(0);
  const { stderr, code } = await daemon.cli("import", "--dry-run", "--network", "nomad");
  expect(stderr).toContain(problem);
  expect(code).toBe(1);
});
