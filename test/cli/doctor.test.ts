/** `holdfast doctor` on a node: each thing that can be missing, in a directory that stands for `/`. */
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Diagnosis } from "../../admin/admin-api.ts";
import type { DaemonAnswer } from "../../cli/doctor/daemon.ts";
import { examineNode } from "../../cli/doctor/main.ts";
import { VERSION } from "../../version.ts";
import { HOLDFAST, newDirectory, run } from "../harness/daemon.ts";

const PLUGIN = join(import.meta.dirname, "../../dist/bin/holdfast-ipam");
const READY: DaemonAnswer = {
  socket: "/run/holdfast/holdfast.sock",
  status: {
    version: VERSION,
    node: "n1",
    mode: "standalone",
    since: "2026-01-01T00:00:00Z",
    notReady: null,
    outstanding: 0,
    journal: null,
  },
};
const noProbe = () => Promise.reject(new Error("not tried"));

let root: string;
beforeEach(() => {
  root = newDirectory();
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text = ""): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function installPlugin(directory: string): void {
  mkdirSync(join(root, directory), { recursive: true });
  copyFileSync(PLUGIN, join(root, directory, "holdfast-ipam"));
}

async function look(part: string, daemon: DaemonAnswer = READY): Promise<Diagnosis[]> {
  const all = await examineNode({ root, daemon, probe: noProbe });
  for (const { state, fix } of all) if (state === "failed" || state === "warning") expect(fix).not.toBe("");
  return all.filter((one) => one.part === part);
}

const states = (found: readonly Diagnosis[]) => found.map(({ state }) => state);

test("a daemon that serves, one of another version, and one that gives no address", async () => {
  const { status } = READY as { status: NonNullable<DaemonAnswer["status"]> };
  expect(states(await look("daemon"))).toEqual(["ok"]);
  const older = await look("daemon", { ...READY, status: { ...status, version: "0.0.1" } });
  expect(older).toMatchObject([{ state: "warning", found: expect.stringContaining("0.0.1") }]);
  const waiting = await look("daemon", { ...READY, status: { ...status, notReady: "the disk is full" } });
  expect(waiting).toMatchObject([{ state: "failed", found: expect.stringContaining("the disk is full") }]);
  const away = { socket: "s", status: null, problem: "nobody listens", fix: "start it" };
  expect(await look("daemon", away)).toEqual([
    { part: "daemon", state: "failed", found: "nobody listens", fix: "start it" },
  ]);
});

test("the plugin binary: missing, not executable, of another version, and right", async () => {
  expect(await look("plugin binary")).toMatchObject([
    { state: "failed", found: expect.stringContaining("/opt/cni/bin/holdfast-ipam does not exist") },
  ]);
  installPlugin("opt/cni/bin");
  chmodSync(join(root, "opt/cni/bin/holdfast-ipam"), 0o644);
  expect(await look("plugin binary")).toMatchObject([{ state: "failed", fix: expect.stringContaining("chmod") }]);
  write("opt/cni/bin/holdfast-ipam", "#!/bin/sh\necho holdfast-ipam 0.0.1\n");
  chmodSync(join(root, "opt/cni/bin/holdfast-ipam"), 0o755);
  expect(await look("plugin binary")).toMatchObject([{ state: "warning", found: expect.stringContaining("0.0.1") }]);
  rmSync(join(root, "opt/cni/bin/holdfast-ipam"));
  installPlugin("opt/cni/bin");
  expect(states(await look("plugin binary"))).toEqual(["ok"]);
});

test.each([
  ["k3s", "var/lib/rancher/k3s/x", "/var/lib/rancher/k3s/data/cni"],
  ["an older k3s", "var/lib/rancher/k3s/data/current/bin/bridge", "/var/lib/rancher/k3s/data/current/bin"],
  ["RKE2", "var/lib/rancher/rke2/x", "/opt/cni/bin"],
  ["microk8s", "var/snap/microk8s/current/x", "/var/snap/microk8s/current/opt/cni/bin"],
  ["OpenShift", "etc/kubernetes/cni/net.d/x", "/var/lib/cni/bin"],
  ["podman of Debian", "usr/lib/cni/bridge", "/usr/lib/cni"],
])("the directory of plugins of %s", async (_name, mark, directory) => {
  write(mark);
  const missing = await look("plugin binary");
  expect(missing.map(({ found }) => found.split(" ")[0])).toEqual([`${directory}/holdfast-ipam`]);
  installPlugin(directory);
  expect(states(await look("plugin binary"))).toEqual(["ok"]);
});

test("directories that a runtime's own file names", async () => {
  write("etc/containerd/config.toml", `[plugins.cni]\n  bin_dir = "/srv/cni"\n`);
  write("etc/containers/containers.conf", `[network]\ncni_plugin_dirs = [\n  "/srv/a",\n  "/srv/b",\n]\n`);
  const names = (await look("plugin binary")).map(({ found }) => found.split("/holdfast-ipam")[0]);
  expect(names).toEqual(["/srv/cni", "/srv/a", "/srv/b"]);
});

test("network files that name holdfast-ipam: sound, not JSON, and with a plugin that is not there", async () => {
  installPlugin("opt/cni/bin");
  expect(await look("network file")).toEqual([]);
  write("etc/cni/net.d/10-other.conflist", `{"name":"other","plugins":[{"type":"nothing"}]}`);
  const list = (type: string) => `{"name":"blue","plugins":[{"type":"${type}","ipam":{"type":"holdfast-ipam"}}]}`;
  write("etc/cni/net.d/20-blue.conflist", list("bridge"));
  expect(await look("network file")).toMatchObject([
    { state: "failed", found: expect.stringContaining("names the plugin bridge") },
  ]);
  write("opt/cni/bin/bridge", "");
  chmodSync(join(root, "opt/cni/bin/bridge"), 0o755);
  expect(await look("network file")).toMatchObject([
    { state: "ok", found: "/etc/cni/net.d/20-blue.conflist defines network blue" },
  ]);
  write("etc/cni/net.d/20-blue.conflist", `${list("bridge")},`);
  expect(await look("network file")).toMatchObject([
    { state: "failed", found: expect.stringContaining("cannot be read as JSON") },
  ]);
});

test("bridged frames that no rule sees are no finding", async () => {
  expect(await look("bridged traffic")).toEqual([]);
  write("proc/sys/net/bridge/bridge-nf-call-iptables", "0\n");
  expect(states(await look("bridged traffic"))).toEqual(["ok"]);
});

describe("in a pod", () => {
  const TOKEN = "var/run/secrets/kubernetes.io/serviceaccount/token";
  const IN_POD: DaemonAnswer = {
    ...READY,
    status: { ...(READY as { status: NonNullable<DaemonAnswer["status"]> }).status, mode: "kubernetes" },
  };
  afterEach(() => vi.unstubAllEnvs());
  const examine = (daemon: DaemonAnswer) => examineNode({ root, daemon, probe: noProbe });
  beforeEach(() => {
    // A setting of the suite's own is none of the daemon's.
    vi.stubEnv("HOLDFAST_KUBE_ASSETS", undefined);
    write(TOKEN);
    write("proc/sys/net/bridge/bridge-nf-call-iptables", "1\n");
  });

  test("of the daemon: what it cannot see of its node is unknown, and nothing is called a fault", async () => {
    mkdirSync(join(root, "run/holdfast"), { recursive: true });
    const found = await examine(IN_POD);
    expect(found.map(({ part, state }) => [part, state])).toEqual([
      ["daemon", "ok"],
      ["state directory", "ok"],
      ["plugin binary", "unknown"],
      ["bridged traffic", "unknown"],
      ["clock", "unknown"],
    ]);
    for (const { state, found: text, fix } of found) {
      expect(text).not.toMatch(/ENOENT|systemctl|timedatectl/);
      if (state === "unknown") expect(fix).toContain("holdfast doctor on the node");
    }
    // The image has the plugin binary too: it asks this daemon, which is none here.
    installPlugin("usr/local/lib/holdfast/bin");
    expect((await examine(IN_POD)).map(({ part }) => part)).toContain("plugin to daemon");
  });

  test("of the daemon, which does not answer or gives no address: the remedies are those of a pod", async () => {
    mkdirSync(join(root, "run/holdfast"), { recursive: true });
    const silent = { socket: READY.socket, status: null, problem: "nobody listens", fix: "systemctl start" };
    const full = { ...IN_POD, status: { ...IN_POD.status, notReady: "the disk is full" } } as DaemonAnswer;
    for (const daemon of [silent, full]) {
      const [first] = await examine(daemon);
      expect(first).toMatchObject({ state: "failed", fix: expect.stringContaining("kubectl logs") });
      expect(first?.fix).not.toContain("systemctl");
    }
  });

  test("of the controller: it says where a node and the cluster are examined, and that is all", async () => {
    write("var/run/secrets/kubernetes.io/serviceaccount/namespace", "network\n");
    const silent = { socket: READY.socket, status: null, problem: "not there", fix: "start it" };
    expect(await examine(silent)).toEqual([
      {
        part: "place",
        state: "unknown",
        found: expect.stringContaining("no daemon"),
        fix: expect.stringContaining("kubectl -n network exec daemonset/holdfast-node -- holdfast doctor"),
      },
    ]);
  });
});

test("the command prints a remedy below each fault, and exits 1", async () => {
  const socket = join(root, "none.sock");
  const { code, stdout } = await run(process.execPath, [HOLDFAST, "doctor", "--socket", socket]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^failed +daemon +the daemon is not reachable at .*\n +fix: start it/m);
  const json = await run(process.execPath, [HOLDFAST, "doctor", "-o", "json", "--socket", socket]);
  expect(JSON.parse(json.stdout).items[0]).toMatchObject({ part: "daemon", state: "failed" });
});
