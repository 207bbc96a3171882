import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { apply, claim, nad } from "../cni/manifests.ts";
import { send, T } from "../cni/wire.ts";
import {
  type CniAnswer,
  network,
  newFolder,
  type Release,
  run,
  SHIM,
  TestDaemon,
} from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { releaseOf } from "../harness/release.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { ipsOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const ROOT = join(import.meta.dirname, "../..");
const STATE = readFileSync(join(import.meta.dirname, "state/0.1.0.sql"), "utf8");

test("a state of 0.1.0 is taken up: claims, containers and definitions are what they were", async () => {
  const folder = newFolder();
  mkdirSync(join(folder, "state"), { mode: 0o700 });
  const db = new Database(join(folder, "state/holdfast.db"));
  db.exec(STATE);
  // The machine has not been restarted since.
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  db.prepare("UPDATE attachments SET boot_id = ?").run(bootId);
  db.close();
  writeFileSync(join(folder, "state/holdfast.initialised"), "");

  const daemon = await TestDaemon.start({ folder });
  try {
    const { stdout } = await daemon.cli("list");
    expect(stdout).toMatch(/^blue +10\.8\.0\.1\/24 +container web \(eth0\) .* Bound/m);
    expect(stdout).toMatch(/^red +10\.9\.0\.217\/24 +claim default\/vm1 .* Bound/m);
    expect(await daemon.cli("check")).toMatchObject({ code: 0 });

    // The definition has the flag of persistence where 0.1.0 took it, and 10.8.0.1 is still in use.
    const red = { ...network("red"), ipam: { type: "holdfast-ipam" } };
    const vm = await daemon.cni("ADD", "vm1-run2", { config: red, args: "IPAM_CLAIM=default/vm1" });
    expect(vm.json().ips).toEqual([{ address: "10.9.0.217/24" }]);
    const blue = network("blue", { subnets: "10.8.0.0/24" });
    expect((await daemon.cni("ADD", "new", { config: blue })).json().ips).toEqual([
      { address: "10.8.0.3/24" },
    ]);
  } finally {
    await daemon.stop();
  }
});

test("docs/upgrade.md: the way back moves everything of the journal away, also after a crash, and leaves the spool", async () => {
  const daemon = await TestDaemon.start();
  try {
    await daemon.cni("ADD", "web", { config: network("blue", { subnets: "10.8.0.0/24" }) });
    await daemon.end("SIGKILL");
    const [, move] = codeBlocks("docs/upgrade.md", "Back to the release before") as [string, string];
    const script = move.replaceAll("/var/lib/holdfast", daemon.state);
    expect(await run("bash", ["-euc", script])).toMatchObject({ code: 0 });
    expect(readdirSync(daemon.state).sort()).toEqual(["newer", "reserve", "spool"]);
    const moved = ["holdfast.db", "holdfast.db-wal", "holdfast.initialised", "holdfast.open"];
    expect(readdirSync(join(daemon.state, "newer")).sort()).toEqual(moved);
  } finally {
    await daemon.stop();
  }
});

/** Releases whose state is made by their own programs: the commit that each was built from. */
const RELEASES = [["0.2.0", "79a1b26104b896bf83045040ab95163bb02eda68"]] as const;

/** Role, verb and resource of every rule. */
function rightsIn(manifests: string): string[] {
  const objects = parseAllDocuments(manifests).map((document) => document.toJS() as KubeObject);
  return objects.flatMap(({ metadata, rules = [] }) =>
    rules.flatMap(({ apiGroups, resources, verbs, resourceNames = [""] }: Rule) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) =>
          verbs.flatMap((verb) =>
            resourceNames.map((name) => [metadata.name, verb, group, resource, name].join(" ")),
          ),
        ),
      ),
    ),
  );
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** An archive of the sources has none, for one. */
const NO_HISTORY = "the release is built from the history, which this clone has not: git fetch --unshallow";
const BUILD_MS_MAX = 300_000;
const RED = network("red", { subnets: "10.9.0.0/24,fd09::/64" }, { allowPersistentIPs: true });
const BLUE = network("blue", { subnets: "10.8.0.0/24,fd08::/64" });

describe.each(RELEASES)("what %s has left", (_name, commit) => {
  let built: Release | null;
  beforeAll(async () => {
    built = await releaseOf(commit);
    if (built === null) console.warn(`skipped: ${NO_HISTORY}`);
  }, BUILD_MS_MAX);

  test("in a cluster: its accounts keep all their rights, as its nodes are upgraded one after the other", async ({
    skip,
  }) => {
    if (built === null) skip(NO_HISTORY);
    const { stdout } = await run("git", ["-C", ROOT, "show", `${commit}:deploy/rbac.yaml`]);
    const before = rightsIn(stdout);
    const now = new Set(rightsIn(readFileSync(join(ROOT, "deploy/rbac.yaml"), "utf8")));
    expect(before.length).toBeGreaterThan(50);
    // A server without a right may take what it cannot read for empty, and tells guests so.
    expect(before.filter((right) => !now.has(right))).toEqual([]);
  });

  test("on a node: attachments, claims, a definition, a tombstone, history and the spool", async ({
    skip,
  }) => {
    const release = built ?? skip(NO_HISTORY);
    const before = await TestDaemon.start({ release });
    let daemon = before;
    try {
      const left = await leaveOnNode(before);
      await before.end();
      // The daemon is away: the plugin binary spools the DEL.
      await done(before.cni("DEL", "late", { config: BLUE }));
      expect(readdirSync(before.spool)).toHaveLength(1);

      daemon = await TestDaemon.start({ folder: before.folder });
      expect(readdirSync(daemon.spool)).toEqual([]);
      expect(await listed(daemon)).toEqual(left.listed.filter((line) => !line.includes("late")));
      expect(await items(daemon, "claims")).toEqual(left.claims);
      expect(await ofOthersThanLate(daemon)).toEqual(left.history);

      for (const shim of [release.shim, SHIM]) {
        expect((await daemon.cni("ADD", "web", { config: BLUE, shim })).stdout).toBe(left.web);
        expect((await daemon.cni("ADD", "vm1-1", { ...withClaim("vm1"), shim })).stdout).toBe(left.vm1);
      }
      const overtaken = await send(daemon, "ADD", { containerId: "ended", config: BLUE, bootUs: T });
      expect(overtaken.json().msg).toMatch(/a later DEL/);
      expect((await daemon.cni("ADD", "vm2-2", withClaim("vm2"))).stdout).toBe(left.vm2);
      const fresh = ipsOf(await daemon.cni("ADD", "new", { config: BLUE }));
      expect(left.listed.filter((line) => fresh.some((ip) => line.startsWith(`${ip} `)))).toEqual([]);
      expect(await daemon.cli("check")).toMatchObject({ code: 0 });

      await done(daemon.cni("DEL", "web", { config: BLUE }));
      await done(daemon.cni("DEL", "new", { config: BLUE }));
      await done(daemon.cni("DEL", "vm1-1", { ...withClaim("vm1"), shim: release.shim }));
      const users = { vm1: "", vm2: "vm2-2" };
      const kept = left.listed.flatMap((line) => {
        const [, held, name] = /^(\S+ claim (vm[12]), used by )/.exec(line) ?? [];
        return held === undefined ? [] : [held + users[name as keyof typeof users]];
      });
      expect(kept).toHaveLength(4);
      expect(await listed(daemon)).toEqual(kept);
      expect(await daemon.cli("check")).toMatchObject({ code: 0 });
    } finally {
      await daemon.stop();
    }
  });

  test("in a cluster: its controller reports addresses of machines, and leaves them alone", async ({
    skip,
  }) => {
    const release = built ?? skip(NO_HISTORY);
    const world = await World.start({ api: "memory" });
    const [port = 0] = await freePorts(1);
    const address = `127.0.0.1:${port}`;
    const settings = ["--sweep-interval-seconds", "1", "--sweep-grace-seconds", "1"];
    const kubeconfig = world.cluster.kubeconfig("holdfast-controller");
    const flags = ["--kubeconfig", kubeconfig, "--metrics-address", address, ...settings];
    const controller = new ProductProcess(["controller", ...flags], [], release.holdfast);
    try {
      const machine = { namespace: NAMESPACE, name: "m0", uid: "c1", interface: "" };
      await world.allocate("blue", "10.0.0.5/24", { kind: "IPAddressClaim", ...machine, cluster: "prod" });
      await world.allocate("blue", "10.0.0.6/24", { kind: "Metal3Data", ...machine, interface: "blue" });
      await controller.until(async () => {
        const answer = await fetch(`http://${address}/metrics`).catch(() => null);
        return (await answer?.text())?.includes('{verdict="report",why="unsound"} 2') ?? false;
      }, "it to report both");
      await world.stays("blue", "10.0.0.5/24");
      expect(await world.state("blue", "10.0.0.6/24")).toBe("Bound");
    } finally {
      await controller.end();
      await world.stop();
    }
  });

  test("in a cluster: its objects, the journal of a node and the spool", async ({ skip }) => {
    const release = built ?? skip(NO_HISTORY);
    const world = await World.start({ api: "server", nodes: ["node-a"], node: { release } });
    try {
      const node = world.node("node-a");
      const blue = await world.network("blue", { subnets: "10.0.0.0/24,fd00::/64" });
      const nic = { ifname: interfaceOf("blue") };
      const [vm, stopped] = [await world.vm("runs", blue), await world.vm("stopped", blue)];
      const { pod: launcher } = await world.kubevirt.startVm(vm, "node-a");
      const { pod: former } = await world.kubevirt.startVm(stopped, "node-a");
      const [web, ended, late] = [
        await world.pod("web", "node-a", blue),
        await world.pod("ended", "node-a", blue),
        await world.pod("late", "node-a", blue),
      ];
      const given = {
        launcher: await world.given(launcher, blue, nic),
        former: await world.given(former, blue, nic),
        web: await world.given(web, blue),
        ended: await world.given(ended, blue),
        late: await world.given(late, blue),
      };
      await world.kubevirt.stopVm(stopped);
      await world.del(former, blue, nic);
      for (const ip of given.former) await world.untilUsers(blue, ip);
      await world.del(ended, blue);
      for (const ip of given.ended) await world.becomes(blue, ip, "Cooling");
      await node.daemon.end();
      await world.del(late, blue);
      const objects = await world.allocations(blue);
      expect(objects).toHaveLength(10);

      await node.restart("SIGTERM", { release: undefined });
      expect(readdirSync(node.daemon.spool)).toEqual([]);
      for (const ip of given.late) await world.becomes(blue, ip, "Cooling");
      const isLate = ({ spec }: KubeObject) => given.late.includes(spec.address);
      const present = await world.allocations(blue);
      expect(present.filter((one) => !isLate(one))).toEqual(objects.filter((one) => !isLate(one)));

      expect(await world.given(web, blue)).toEqual(given.web);
      expect(await world.given(launcher, blue, nic)).toEqual(given.launcher);
      const { pod: next } = await world.kubevirt.startVm(stopped, "node-a");
      expect(await world.given(next, blue, nic)).toEqual(given.former);
      const fresh = await world.given(await world.pod("new", "node-a", blue), blue);
      expect(objects.filter(({ spec }) => fresh.includes(spec.address))).toEqual([]);
      await world.settled();

      await world.del(web, blue);
      for (const ip of given.web) await world.becomes(blue, ip, "Cooling");
      await world.del(launcher, blue, nic);
      for (const ip of given.launcher) await world.untilUsers(blue, ip);
      expect(await world.given(launcher, blue, { ...nic, containerId: "next" })).toEqual(given.launcher);
      await world.settled();
    } finally {
      await world.stop();
    }
  });
});

function withClaim(name: string): { config: object; args: string } {
  return { config: RED, args: `IPAM_CLAIM=default/${name}` };
}

async function done(answer: Promise<CniAnswer>): Promise<string> {
  const { code, stdout, stderr } = await answer;
  expect(code, stdout + stderr).toBe(0);
  return stdout;
}

/** A VM that runs, one that is stopped, two containers, and one whose DEL was seen. */
async function leaveOnNode(daemon: TestDaemon) {
  await apply(daemon, nad("red", RED));
  await apply(daemon, claim("vm1", { network: "red" }), claim("vm2", { network: "red" }));
  const web = await done(daemon.cni("ADD", "web", { config: BLUE }));
  const vm1 = await done(daemon.cni("ADD", "vm1-1", withClaim("vm1")));
  const vm2 = await done(daemon.cni("ADD", "vm2-1", withClaim("vm2")));
  await done(daemon.cni("DEL", "vm2-1", withClaim("vm2")));
  await done(daemon.cni("ADD", "late", { config: BLUE }));
  await done(daemon.cni("ADD", "ended", { config: BLUE }));
  await done(daemon.cni("DEL", "ended", { config: BLUE }));
  const [claims, history] = [await items(daemon, "claims"), await ofOthersThanLate(daemon)];
  return { web, vm1, vm2, claims, history, listed: await listed(daemon) };
}

async function items(daemon: TestDaemon, ...command: readonly string[]): Promise<KubeObject[]> {
  const { code, stdout, stderr } = await daemon.cli(...command, "-o", "json");
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout).items;
}

/** Every address that somebody has: `10.8.0.1/24 container web, used by web`. */
async function listed(daemon: TestDaemon): Promise<string[]> {
  const bound = (await items(daemon, "list")).filter(({ state }) => state === "Bound");
  return bound
    .map(({ address, owner, attachments }) => {
      const users = attachments.map(({ containerID }: KubeObject) => containerID).join();
      return `${address} ${owner.kind} ${owner.name || owner.uid}, used by ${users}`;
    })
    .sort();
}

async function ofOthersThanLate(daemon: TestDaemon): Promise<KubeObject[]> {
  return (await items(daemon, "history")).filter(({ containerID }) => containerID !== "late");
}
