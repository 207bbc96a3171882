import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttpsServer } from "node:https";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAddress } from "../../ipam/space/address.ts";
import { allocationName, networkObjectName } from "../../kube/object-names.ts";
import { normalise } from "../cli/normalise.ts";
import { type Certificate, makeCertificate } from "../harness/certificate.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { KubeVirt, Vm } from "../harness/kubevirt.ts";
import type { NodeDaemon } from "../harness/node.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { World } from "../harness/world/world.ts";

// The command line against a cluster, without any daemon: `--kubeconfig`.
const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const NETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";
const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
const BOUND = "ipam.holdfast.dev/bound";
const LONG_AGO = "2020-01-01T00:00:00.000Z";

// One address of each family is left to give, so that everybody gets a known one.
const BLUE = configOf("blue", {
  subnets: "10.0.0.0/29,fd00::/125",
  excludeSubnets: "10.0.0.2/31,10.0.0.4/30,fd00::2/127,fd00::4/126",
});
const GREEN = configOf("green", { subnets: "10.1.0.0/29", excludeSubnets: "10.1.0.2/31,10.1.0.4/30" });
const GREY = configOf("grey", {
  subnets: "10.2.0.0/30",
  excludeSubnets: "10.2.0.2/32",
  cooldownSeconds: 600,
});

let world: World;
let cluster: Cluster;
let kubevirt: KubeVirt;
let a: NodeDaemon;
let b: NodeDaemon;
let vm: Vm;
let web: KubeObject;
let reader: string;
let admin: string;

function configOf(name: string, ipam: object): string {
  const plugin = { cniVersion: "1.0.0", name, type: "bridge", allowPersistentIPs: true };
  return JSON.stringify({ ...plugin, ipam: { type: "holdfast-ipam", ...ipam } });
}

/** The command line on a machine without daemon, as a user who may only read. */
function cli(...args: string[]) {
  return world.cli("--kubeconfig", reader, ...args);
}

async function table(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(...args);
  expect(code, stderr).toBe(0);
  return normalise(stdout, cluster.directory);
}

async function json(...args: string[]): Promise<KubeObject> {
  const { stdout, stderr } = await cli(...args, "-o", "json");
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

async function findings(): Promise<string[]> {
  const { findings } = await json("check", "--grace", "0");
  return findings.map(({ invariant, message }: KubeObject) => `${invariant}: ${message}`).sort();
}

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  ({ cluster, kubevirt } = world);
  await kubevirt.createNad("shop", "blue", BLUE);
  await kubevirt.createNad("shop", "green", GREEN);
  await kubevirt.createNad("shop", "grey", GREY);
  reader = cluster.kubeconfig("viewer");
  admin = cluster.kubeconfig("admin");
  a = await world.startNode("node-a");
  b = await world.startNode("node-b");
  await live();
});
afterAll(async () => {
  await world?.stop();
});

/** A VM that migrates, a pod that stays, and one that was there. */
async function live(): Promise<void> {
  vm = await kubevirt.createVm("shop", "vm1", [{ logical: "blue", nad: "blue", network: "blue" }]);
  const { pod } = await kubevirt.startVm(vm, "node-a");
  const ifname = interfaceOf("blue");
  expect((await a.add(pod, { config: BLUE, ifname, containerId: "c1" })).code).toBe(0);
  const target = await kubevirt.migrate(vm, "node-b");
  expect((await b.add(target, { config: BLUE, ifname, containerId: "c2" })).code).toBe(0);
  expect((await a.del(pod, { config: BLUE, ifname, containerId: "c1" })).code).toBe(0);
  await kubevirt.removePod(pod);
  web = await kubevirt.createPod("shop", "web", { node: "node-b", networks: [{ name: "green" }] });
  expect((await b.add(web, { config: GREEN, containerId: "c3" })).code).toBe(0);
  await report(web, "10.1.0.1");
  const gone = await kubevirt.createPod("shop", "gone", { node: "node-a", networks: [{ name: "grey" }] });
  expect((await a.add(gone, { config: GREY, containerId: "c4" })).code).toBe(0);
  expect((await a.del(gone, { config: GREY, containerId: "c4" })).code).toBe(0);
  await kubevirt.removePod(gone);
  await world.until(async () => {
    const objects: KubeObject[] = await cluster.api.list(ALLOCATIONS);
    const uses = objects.map(({ status }) => Object.keys(status.attachments ?? {}).length);
    return objects.some(({ status }) => status.state === "Cooling") && Math.max(...uses) === 1;
  }, "the DELs to be told");
}

/** What Multus writes of a pod's interface on the network green. */
function report(pod: KubeObject, ip: string): Promise<KubeObject> {
  const status = JSON.stringify([{ name: "shop/green", interface: "net1", ips: [ip] }]);
  return cluster.api.patch(pathOf("shop", "pods", pod.metadata.name), {
    metadata: { annotations: { "k8s.v1.cni.cncf.io/network-status": status } },
  });
}

describe("reading commands over a cluster", () => {
  test("list shows the same from a node's socket and from the cluster, with every filter", async () => {
    for (const filter of [
      [],
      ["--vm", "vm1"],
      ["--claim", "shop/vm1.blue"],
      ["--pod", "web"],
      ["--node", "node-b"],
      ["--network", "green"],
      ["--address", "fd00::1"],
      ["--network", "red"],
    ]) {
      const node = await b.daemon.cli("list", ...filter, "-o", "json");
      const { code, stdout, stderr } = await cli("list", ...filter, "-o", "json");
      expect({ code, stdout, stderr }).toEqual(node);
      // There is no such network.
      expect(code, stderr).toBe(filter.includes("red") ? 1 : 0);
    }
    expect(await table("list")).toMatchInlineSnapshot(`
      "NETWORK   ADDRESS       HOLDER                 VM    USED BY                        NODE     STATE     AGE
      blue      10.0.0.1/29   claim shop/vm1.blue    vm1   pod shop/virt-launcher-vm1-2   node-b   Bound     <age>
      blue      fd00::1/125   claim shop/vm1.blue    vm1   pod shop/virt-launcher-vm1-2   node-b   Bound     <age>
      green     10.1.0.1/29   pod shop/web (net1)    -     container c3 (net1)            node-b   Bound     <age>
      grey      10.2.0.1/30   pod shop/gone (net1)   -     -                              -        Cooling   <age>
      "
    `);
    expect((await json("list", "--vm", "vm1")).items).toHaveLength(2);
  });

  test("networks lists all networks, and show describes one", async () => {
    expect(await table("networks")).toMatchInlineSnapshot(`
      "NETWORK   SUBNET        SIZE   ALLOCATED   COOLING   FREE   EXCLUDED   PUBLISHED   SOURCE
      blue      10.0.0.0/29   8      1           0         0      7          never       shop/blue
      blue      fd00::/125    8      1           0         0      7          never       shop/blue
      green     10.1.0.0/29   8      1           0         0      7          never       shop/green
      grey      10.2.0.0/30   4      0           1         0      3          never       shop/grey
      "
    `);
    expect(await table("show", "green")).toMatchInlineSnapshot(`
      "Network:         green
      Defined by:      shop/green
      Owner:           shop
      Persistent IPs:  allowed
      Cool-down:       60 s
      Imported:        yes
      Attachments:     1
      Range:           10.1.0.0/29: 1 allocated + 0 cooling + 0 free + 7 excluded = 8
      Holders:         1

      ADDRESS       HOLDER                VM   USED BY               NODE     STATE   AGE
      10.1.0.1/29   pod shop/web (net1)   -    container c3 (net1)   node-b   Bound   <age>
      "
    `);
    const { network } = await json("show", "blue");
    expect(network).toMatchObject({ name: "blue", imported: true, attachments: 1, outside: "0" });
    for (const { size, free, allocated, cooling, excluded } of network.ranges) {
      expect(BigInt(free) + BigInt(allocated) + BigInt(cooling) + BigInt(excluded)).toBe(BigInt(size));
    }
    expect(await cli("show", "red")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("network red"),
    });
  });

  test("who shows the holder of an address, or the last one", async () => {
    expect(await table("who", "10.0.0.1")).toMatchInlineSnapshot(`
      "NETWORK   ADDRESS       HOLDER                VM    USED BY                        NODE     STATE   AGE
      blue      10.0.0.1/29   claim shop/vm1.blue   vm1   pod shop/virt-launcher-vm1-2   node-b   Bound   <age>
      "
    `);
    const nobody = await cli("who", "10.0.0.200");
    expect(nobody).toMatchObject({ code: 1, stdout: "" });
    expect(nobody.stderr).toBe(
      "error: nobody holds 10.0.0.200: it is in no network; there are blue (10.0.0.0/29, fd00::/125), green (10.1.0.0/29), grey (10.2.0.0/30)\nlast holder: none in the history\n",
    );
    const { code, stderr } = await cli("who", "10.2.0.1");
    expect(code).toBe(1);
    expect(normalise(stderr, cluster.directory)).toMatchInlineSnapshot(`
      "error: nobody holds 10.2.0.1 on network grey: it was released <age> ago and is in its cool-down for another <age>
      last holder: pod shop/gone (net1) on network grey, until <age> ago (released)
      "
    `);
  });

  test("who says that a cool-down is over, although the release is still recorded", async () => {
    const objects: KubeObject[] = await cluster.api.list(ALLOCATIONS);
    const { metadata, status } = objects.find((one) => one.status.state === "Cooling") as KubeObject;
    const released = (since: string) => cluster.api.patch(`${ALLOCATIONS}/${metadata.name}`, { status: { since } });
    try {
      await released(new Date(Date.parse(status.since) - 662_000).toISOString().replace(/\.\d+/, ""));
      const { code, stderr } = await cli("who", "10.2.0.1");
      expect(code).toBe(1);
      expect(stderr).toMatch(/^error: .* it was released 11m ago, and its cool-down of 600 s is over\n/);
    } finally {
      await released(status.since);
    }
  });

  test("claims shows the same as on a node", async () => {
    expect(await table("claims")).toMatchInlineSnapshot(`
      "NAMESPACE   NAME       NETWORK   IPS                       OWNERPOD              STATUS                 AGE
      shop        vm1.blue   blue      10.0.0.1/29,fd00::1/125   virt-launcher-vm1-2   SuccessfulAllocation   <age>
      "
    `);
    const node = await a.daemon.cli("claims", "-o", "yaml");
    expect((await cli("claims", "-o", "yaml")).stdout).toBe(node.stdout);
    expect(await cli("claims", "shop/none")).toMatchObject({ code: 1 });
  });

  test("history shows what the objects know, and says where the rest is", async () => {
    const { code, stderr } = await cli("history");
    expect(code).toBe(0);
    expect(stderr).toContain("the past is with each node");
    expect(await table("history", "10.0.0.1")).toMatchInlineSnapshot(`
      "NETWORK   ADDRESS       HOLDER                USED BY                        NODE     FROM        UNTIL   ENDED BY
      blue      10.0.0.1/29   claim shop/vm1.blue   pod shop/virt-launcher-vm1-2   node-b   <age> ago   still   -
      blue      10.0.0.1/29   claim shop/vm1.blue   -                              node-b   <age> ago   still   -
      "
    `);
    expect(await table("history", "--network", "green")).toMatchInlineSnapshot(`
      "NETWORK   ADDRESS       HOLDER                USED BY               NODE     FROM        UNTIL   ENDED BY
      green     10.1.0.1/29   pod shop/web (net1)   container c3 (net1)   node-b   <age> ago   still   -
      "
    `);
    expect(await table("history", "--network", "grey", "-o", "wide")).toMatchInlineSnapshot(`
      "NETWORK   ADDRESS       HOLDER                 POD   CONTAINER   NODE   FROM   UNTIL    ENDED BY
      grey      10.2.0.1/30   pod shop/gone (net1)   -     -           -      -      <time>   released
      "
    `);
    const { items } = await json("history", "10.0.0.1");
    expect(items).toMatchObject([
      { owner: { kind: "claim", name: "vm1.blue" }, until: null },
      { owner: { kind: "claim", name: "vm1.blue" }, until: null },
    ]);
    expect((await cli("history", "--limit", "1", "-o", "json")).stderr).toContain("shown: the newest 1");
  });

  test("version needs no daemon", async () => {
    expect(await cli("version")).toMatchObject({ code: 0, stdout: "client   1.0.0-rc.1\n", stderr: "" });
  });
});

describe("check", () => {
  test("finds nothing after normal use", async () => {
    expect(await findings()).toEqual([]);
    expect(await table("check")).toMatchInlineSnapshot(`
      "ok: 3 allocations, 2 attachments and 1 claim on 3 networks verified:
          every IPAllocation is what its name says, and every network is imported
          I1  no address has two owners
          I2  every address of a claim or a living pod is allocated to it
          I3  every allocation has a living reason
          I5  free + allocated + retained + cooling + excluded = size, in every range
      each node's own state is checked there: holdfast check, without --kubeconfig
      "
    `);
  });

  test("finds every kind of fault, and nothing once it is fixed", async () => {
    const target = (await kubevirt.launchers(vm))[0];
    await plant("10.0.0.1/29", { name: "twice" });
    await plant("10.0.0.77/29", { name: "misnamed" });
    await plant("nonsense", { name: "unreadable" });
    await plant("10.0.0.78/29", { status: {} });
    await plant("10.0.0.79/29", { owner: { kind: "IPAMClaim", name: "nowhere", uid: "u1" } });
    await plant("10.0.0.80/29", { owner: { kind: "Pod", name: "never", uid: "u2" } });
    await plant("10.0.0.81/29", { owner: { kind: "Pod", namespace: "", name: "", uid: "u3" } });
    await plant("10.0.0.82/29", { owner: { kind: "Container", uid: "u4" } });
    await plant("10.0.0.83/29", { status: { state: "Cooling", since: LONG_AGO }, finalizers: [BOUND] });
    const missing = await claim("missing", ["10.0.0.90/29", "10.0.0.91"]);
    const thief = await claim("thief", ["10.0.0.1/29"]);
    const stuck = await claim("stuck", ["10.0.0.92/29"]);
    await plant("10.0.0.92/29", { owner: { kind: "IPAMClaim", name: "stuck", uid: stuck.metadata.uid } });
    await cluster.api.delete(pathOf("shop", "ipamclaims", "stuck", CLAIMS));
    await report(web, "10.1.0.6");
    await report(target, "10.1.0.1");
    await kubevirt.createNad("shop", "unused", configOf("unused", { subnets: "10.9.0.0/24" }));
    const object = `${NETWORKS}/${networkObjectName("blue")}`;
    await cluster.api.patch(object, { status: { size: "9", allocated: "5", cooling: "0", free: "5" } });

    expect((await findings()).map((one) => normalise(one, cluster.directory))).toMatchInlineSnapshot(`
      [
        "I1: 10.0.0.1 of network blue has 2 IPAllocations: 16477688c0e00699-0a000001, twice",
        "I1: IPAllocation misnamed claims 10.0.0.77 of network blue, but has another address's name: 10.0.0.77 of network blue may be given a second time",
        "I2: 10.0.0.1/29 of network blue, listed by claim shop/thief, belongs to claim shop/vm1.blue",
        "I2: 10.0.0.90/29 of network blue, listed by claim shop/missing, has no IPAllocation",
        "I2: 10.0.0.91 of network blue, listed by claim shop/missing, cannot be read: 10.0.0.91 has no prefix length; write 10.0.0.91/24, with the length of its subnet",
        "I2: 10.1.0.1 of network green, in use by pod shop/virt-launcher-vm1-2, belongs to pod shop/web (net1)",
        "I2: 10.1.0.6 of network green, in use by pod shop/web, has no IPAllocation",
        "I3: 10.0.0.79/29 of network blue is held by claim shop/nowhere, which is gone, with every pod that used it",
        "I3: 10.0.0.80/29 of network blue is held by pod shop/never (), which is gone and had it before Holdfast: its containers may run on a node that is not recorded",
        "I3: 10.0.0.81/29 of network blue is held by pod / (), of which name or namespace is missing: nobody can tell whether it lives",
        "I3: 10.0.0.82/29 of network blue is held by container u4 (), of which no node is recorded: nobody can tell whether it runs",
        "I3: 10.0.0.83/29 of network blue is held by pod shop/web (net1), which has let go of it; its cool-down is over, but it cannot be deleted: our finalizer is still on it",
        "I5: IPNetwork blue counts 10 addresses of network blue as allocated, retained, cooling or free, of 9",
        "import: network unused is not imported: addresses from before Holdfast may not be recorded, and none is given",
        "object: IPAllocation 16477688c0e00699-0a00004e (10.0.0.78 of network blue) has no state, or an owner without UID",
        "object: IPAllocation unreadable names no network and address that can be read",
        "owner: nobody has recorded whose network unused is: until then it is namespace shop's, which has the oldest definition",
        "stuck: claim shop/stuck is being deleted since <time> and keeps 10.0.0.92/29 of network blue, though no pod names it",
      ]
    `);
    const { code, stdout, stderr } = await cli("check", "--grace", "0");
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    expect(stdout).toMatch(/^I1: .*\n {4}fix: the one that Holdfast made/);

    for (const { metadata } of await cluster.api.list(`${ALLOCATIONS}?labelSelector=planted`)) {
      await cluster.api.patch(`${ALLOCATIONS}/${metadata.name}`, { metadata: { finalizers: [] } });
      await cluster.api.delete(`${ALLOCATIONS}/${metadata.name}`);
    }
    for (const { metadata } of [missing, thief, stuck]) {
      const path = pathOf("shop", "ipamclaims", metadata.name, CLAIMS);
      await cluster.api.patch(path, { metadata: { finalizers: [] } });
      await cluster.api.delete(path);
    }
    await report(web, "10.1.0.1");
    await cluster.api.patch(pathOf("shop", "pods", target.metadata.name), {
      metadata: { annotations: { "k8s.v1.cni.cncf.io/network-status": null } },
    });
    await cluster.api.delete(pathOf("shop", "network-attachment-definitions", "unused", "k8s.cni.cncf.io/v1"));
    await cluster.api.patch(object, { status: { size: null, allocated: null, cooling: null, free: null } });
    expect(await findings()).toEqual([]);
  });

  test("waits for what may be on its way", async () => {
    const since = new Date(world.time.clock.wallMs()).toISOString();
    await plant("10.0.0.80/29", {
      owner: { kind: "Pod", name: "never", uid: "u2" },
      status: { state: "Bound", since },
    });
    expect(await cli("check")).toMatchObject({ code: 0, stdout: expect.stringContaining("ok: ") });
    expect(await findings()).toHaveLength(1);
    await cluster.api.delete(`${ALLOCATIONS}/${allocationName("blue", parseAddress("10.0.0.80"))}`);
  });

  async function plant(
    address: string,
    options: {
      readonly name?: string;
      readonly owner?: object;
      readonly status?: object;
      readonly finalizers?: readonly string[];
    },
  ): Promise<void> {
    const owner = { kind: "Pod", namespace: "shop", name: "web", uid: web.metadata.uid, interface: "net1" };
    const bare = address.split("/")[0] ?? "";
    await cluster.api.create(ALLOCATIONS, {
      apiVersion: "ipam.holdfast.dev/v1alpha1",
      kind: "IPAllocation",
      metadata: {
        name: options.name ?? allocationName("blue", parseAddress(bare)),
        labels: { planted: "" },
        finalizers: options.finalizers ?? [],
      },
      spec: {
        network: "blue",
        address,
        owner: options.owner === undefined ? owner : { namespace: "shop", ...options.owner },
      },
      status: options.status ?? { state: "Bound", since: LONG_AGO },
    });
  }

  async function claim(name: string, ips: readonly string[]): Promise<KubeObject> {
    const path = pathOf("shop", "ipamclaims", "", CLAIMS);
    await cluster.api.create(path, {
      apiVersion: CLAIMS,
      kind: "IPAMClaim",
      metadata: { name, namespace: "shop", finalizers: ["test.example/stay"] },
      spec: { network: "blue", interface: "" },
    });
    return cluster.api.patch(`${path}/${name}/status`, { status: { ips } });
  }
});

test("release frees an address, and requires --force if it is in use", async () => {
  const { uid } = web.metadata;
  await cluster.api.create(ALLOCATIONS, {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPAllocation",
    metadata: { name: allocationName("blue", parseAddress("10.0.0.50")) },
    spec: {
      network: "blue",
      address: "10.0.0.50/29",
      owner: { kind: "Pod", namespace: "shop", name: "web", uid, interface: "net7" },
    },
    status: { state: "Bound", since: LONG_AGO },
  });
  const release = (...args: string[]) => world.cli("release", ...args, "--kubeconfig", admin);
  expect(await release("10.0.0.50"), "no attachment is recorded, but its pod lives").toMatchObject({
    code: 1,
    stderr: expect.stringContaining("10.0.0.50 is in use by pod shop/web (net7)"),
  });
  expect(await release("10.0.0.50", "--force")).toEqual({
    code: 0,
    stdout: "10.0.0.50/29 released on network blue, was held by pod shop/web (net7)\n",
    stderr: "",
  });
  expect((await json("list", "--address", "10.0.0.50")).items).toMatchObject([{ state: "Cooling" }]);
  const inUse = await release("10.0.0.1");
  expect(inUse.code).toBe(1);
  expect(inUse.stderr).toContain("--force releases it anyway");
  expect(await release("10.0.0.51")).toMatchObject({ code: 1 });
});

describe("the kubeconfig", () => {
  const list = (args: string[], env: Record<string, string> = {}) => world.cliWith(env, ...args, "-o", "json");

  test("is named before or after the command or in HOLDFAST_KUBECONFIG, and --socket takes precedence over the variable", async () => {
    const { stdout } = await list(["list", "--kubeconfig", reader]);
    expect(JSON.parse(stdout).items.length).toBeGreaterThan(2);
    expect((await list(["--kubeconfig", reader, "list"])).stdout).toBe(stdout);
    expect((await list(["list"], { HOLDFAST_KUBECONFIG: reader })).stdout).toBe(stdout);
    const env = { HOLDFAST_KUBECONFIG: join(cluster.directory, "none") };
    expect((await list(["list", "--socket", a.daemon.socket], env)).stdout).toBe(stdout);
    expect(await list(["list"], { KUBECONFIG: reader, HOLDFAST_SOCKET: "/nowhere" })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("the daemon is not reachable at /nowhere"),
    });
  });

  test("is a usage error together with --socket, and for commands that only a daemon can answer", async () => {
    const both = await cli("list", "--socket", a.daemon.socket);
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining("only one of them can answer") });
    for (const [remedy, ...args] of [
      ["kubectl apply -f", "apply", "-f", "x.yaml"],
      ["kubectl apply -f", "delete", "claim", "x"],
      ["run it there", "backup", "x.db"],
      ["run it there", "rebuild", "--empty"],
    ] as const) {
      const { code, stderr } = await cli(...args);
      expect(code, stderr).toBe(2);
      expect(stderr).toContain(`error: holdfast ${args[0]} asks a daemon, but --kubeconfig names a cluster\n`);
      expect(stderr).toContain(remedy);
    }
    const env = { HOLDFAST_KUBECONFIG: reader };
    const { code, stderr } = await world.cliWith(env, "backup", "x.db");
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("HOLDFAST_KUBECONFIG names"),
    });
    expect(await a.daemon.cli("check", "--grace", "0")).toMatchObject({ code: 2 });
  });

  test("is passed to the daemon and the controller before or after the command", async () => {
    const none = join(cluster.directory, "none");
    for (const command of ["daemon", "controller"]) {
      const more =
        command === "daemon"
          ? ["--state", join(cluster.directory, "state"), "--socket", join(cluster.directory, "s")]
          : [];
      for (const args of [
        [command, "--kubeconfig", none, ...more],
        ["--kubeconfig", none, command, ...more],
      ]) {
        const { code, stdout, stderr } = await world.cli(...args);
        expect(code).not.toBe(0);
        expect(stdout + stderr).toContain(`kubeconfig ${none} cannot be used`);
      }
    }
  });
});

describe("what goes wrong", () => {
  const as = (kubeconfig: string, ...args: string[]) => world.cli("--kubeconfig", kubeconfig, ...args);

  function changed(change: (text: string) => string): string {
    const path = join(cluster.directory, "changed.kubeconfig");
    writeFileSync(path, change(readFileSync(admin, "utf8")));
    return path;
  }

  test("a missing or unusable kubeconfig is 3", async () => {
    const none = join(cluster.directory, "none");
    expect(await as(none, "list")).toMatchObject({
      code: 3,
      stdout: "",
      stderr: expect.stringMatching(/^error: kubeconfig \S+none cannot be used: .*\nhint: write one that/),
    });
    expect(
      await as(
        changed(() => "{"),
        "list",
      ),
    ).toMatchObject({ code: 3 });
  });

  test("a cluster that cannot be reached, or has another certificate, is 3", async () => {
    const nobody = await as(cluster.kubeconfig("admin", "https://127.0.0.1:1"), "networks");
    expect(nobody).toMatchObject({ code: 3, stdout: "" });
    expect(nobody.stderr).toMatch(
      /^error: the cluster is not reachable at https:\/\/127.0.0.1:1: .*ECONNREFUSED.*\nhint: check the API server/,
    );
    const [own, another] = ["own", "another"].map((name) => {
      const directory = join(cluster.directory, name);
      mkdirSync(directory);
      return makeCertificate(directory);
    }) as [Certificate, Certificate];
    const somebody = createHttpsServer({ cert: own.certificate, key: own.key });
    await new Promise<void>((resolve) => somebody.listen(0, "127.0.0.1", resolve));
    const { port } = somebody.address() as { port: number };
    const url = `https://127.0.0.1:${port}`;
    const other = await as(cluster.kubeconfig("admin", url, another.certificate), "networks");
    somebody.close();
    expect(other).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("certificate-authority of the cluster in the kubeconfig"),
    });
  });

  test("an API server that does not answer is 3 after --timeout", async () => {
    const mute = createServer(() => {});
    await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
    const { port } = mute.address() as { port: number };
    const kubeconfig = cluster.kubeconfig("admin", `https://127.0.0.1:${port}`);
    expect(await as(kubeconfig, "--timeout", "1", "list")).toEqual({
      code: 3,
      stdout: "",
      stderr: `error: the cluster is not reachable at https://127.0.0.1:${port}: no answer within 1 s\nhint: check the API server and the way to it; --timeout waits longer\n`,
    });
    mute.close();
  });

  test("unknown credentials and missing rights are 1", async () => {
    const unknown = await as(
      changed((text) => text.replace(cluster.token("admin"), "nobody")),
      "list",
    );
    expect(unknown).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("does not accept the credentials"),
    });
    const refused = await as(cluster.kubeconfig("holdfast-node"), "check");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^error: the cluster refuses: nodes is forbidden.*\nhint: .*\(list nodes\)\n$/);
  });

  test("a cluster without Holdfast is 1, and the hint says how to install it", async () => {
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipnetworks.ipam.holdfast.dev";
    await cluster.api.delete(path);
    for (const { metadata } of (await cluster.api.get(NETWORKS)).items)
      await cluster.api.patch(`${NETWORKS}/${metadata.name}`, { metadata: { finalizers: null } });
    await world.until(async () => (await cluster.api.call("GET", NETWORKS)).status === 404, "its end");
    expect(await cli("networks")).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "error: the cluster does not know ipnetworks.ipam.holdfast.dev: Holdfast is not installed there\nhint: kubectl apply -k deploy/crds installs its definitions\n",
    });
  });
});
