import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { pathExistsForInit } from "../../store/host-local/machine-paths.ts";

/** Whether a path is there for process 1, in a /proc that the test writes. */

let proc: string;
let root: string;
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), "holdfast-proc-"));
  root = join(proc, "1/root");
  mkdirSync(join(root, "run/cni"), { recursive: true });
  mkdirSync(join(root, "var"));
  mkdirSync(join(proc, "self/ns"), { recursive: true });
  symlinkSync("/run", join(root, "var/run"));
  init({ pidNamespace: 4_026_531_836, comm: "init" });
});
afterEach(() => rmSync(proc, { recursive: true, force: true }));

function init({ pidNamespace, comm }: { pidNamespace: number; comm: string }): void {
  rmSync(join(proc, "self/ns/pid"), { force: true });
  symlinkSync(`pid:[${pidNamespace}]`, join(proc, "self/ns/pid"));
  writeFileSync(join(proc, "1/comm"), `${comm}\n`);
}

test.each<[string, string, boolean]>([
  ["a directory", "/run/cni", true],
  ["one that is missing", "/run/cni/blue", false],
  ["a whole path that is missing", "/srv/cni/networks/blue", false],
  ["an absolute link is the machine's", "/var/run/cni", true],
  ["a directory of this process is not the machine's", "/usr/bin", false],
  ["a path with dots", "//var/./run/../run/cni/", true],
  ["a path above the root", "/../../run/cni", true],
])("%s", (_what, path, there) => {
  expect(pathExistsForInit(path, proc)).toBe(there);
});

test("a relative link, and one that leads nowhere", () => {
  symlinkSync("../run", join(root, "var/other"));
  symlinkSync("/nowhere", join(root, "var/dangling"));
  expect(pathExistsForInit("/var/other/cni", proc)).toBe(true);
  expect(pathExistsForInit("/var/dangling/cni", proc)).toBe(false);
});

test("links in a circle cannot be told", () => {
  symlinkSync("/var/b", join(root, "var/a"));
  symlinkSync("/var/a", join(root, "var/b"));
  expect(pathExistsForInit("/var/a/cni", proc)).toBeNull();
});

test.each<[string, { pidNamespace: number; comm: string }, boolean | null]>([
  ["a container's own process 1 says nothing", { pidNamespace: 4_026_532_201, comm: "holdfast" }, null],
  ["nor does its init", { pidNamespace: 4_026_532_201, comm: "tini" }, null],
  ["a system container is a machine", { pidNamespace: 4_026_532_201, comm: "systemd" }, false],
])("%s", (_what, who, there) => {
  init(who);
  expect(pathExistsForInit("/run/cni/blue", proc)).toBe(there);
});

test.each<[string, { mounts: string; comm: string; pidNamespace: number }, boolean | null]>([
  [
    "one with the kernel's own mounts sees the machine itself",
    { mounts: "mnt:[7]", comm: "kthreadd", pidNamespace: 4_026_531_836 },
    true,
  ],
  ["one with mounts of its own does not", { mounts: "mnt:[8]", comm: "kthreadd", pidNamespace: 4_026_531_836 }, null],
  [
    "process 2 of a container is no kernel thread",
    { mounts: "mnt:[7]", comm: "sh", pidNamespace: 4_026_531_836 },
    null,
  ],
  ["nor is it in a system container", { mounts: "mnt:[7]", comm: "kthreadd", pidNamespace: 4_026_532_201 }, null],
])("of processes that may not look into process 1's root, %s", (_what, { mounts, comm, pidNamespace }, there) => {
  init({ pidNamespace, comm: "systemd" });
  rmSync(root, { recursive: true });
  // No directory: looking into it fails, as it does without the capability for it.
  writeFileSync(root, "");
  symlinkSync(mounts, join(proc, "self/ns/mnt"));
  mkdirSync(join(proc, "2/ns"), { recursive: true });
  symlinkSync("mnt:[7]", join(proc, "2/ns/mnt"));
  writeFileSync(join(proc, "2/comm"), `${comm}\n`);
  expect(pathExistsForInit(proc, proc)).toBe(there);
});
