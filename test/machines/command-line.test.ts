/** What the command line tells of machines, and what it takes back: at a cluster, without any daemon. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL, type ClusterApi } from "../harness/machines/cluster-api.ts";
import { Capm3 } from "../harness/machines/consumers.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";
import { askIdentity } from "../identity/ask.ts";

const DATA = `/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/${NAMESPACE}`;
const MACHINES = `/apis/cluster.x-k8s.io/v1beta2/namespaces/${NAMESPACE}/machines`;

/** Several passes of a controller. */
const PASSES_MS = 4_000;

let world: World;
let capi: ClusterApi;
let admin: string;
let viewer: string;
let address: string;

const cli = (...args: string[]) => world.cli("--kubeconfig", admin, ...args);
/** As somebody who may look, and no more. */
const look = (...args: string[]) => world.cli("--kubeconfig", viewer, ...args);

/** What a command finds in the end: a check looks twice, and time stands still for it. */
async function json(...args: string[]): Promise<KubeObject> {
  if (args[0] === "check") await world.advance(PASSES_MS);
  const { stdout, stderr } = await cli(...args, "-o", "json");
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

/** `node-0` with its data object, Metal3Machine and Machine, and its claim, as Metal3's provider makes them. */
async function metal3Machine(): Promise<void> {
  const of = (kind: string, plural: string, owner?: KubeObject) =>
    world.cluster.api.create(plural, {
      apiVersion: plural.split("/").slice(2, 4).join("/"),
      kind,
      metadata: {
        name: kind === "Metal3Data" ? "nodes-0" : "node-0",
        namespace: NAMESPACE,
        labels: { [CLUSTER_LABEL]: "prod" },
        ...(owner && { ownerReferences: [referenceTo(owner)] }),
      },
      spec: {},
    });
  const machine = await of("Machine", MACHINES);
  const metal3 = await of("Metal3Machine", `${DATA}/metal3machines`, machine);
  await of("Metal3Data", `${DATA}/metal3datas`, metal3);
  const capm3 = new Capm3(capi);
  await capm3.claim("nodes-0", "blue", "prod");
  [address = ""] = (await capm3.address("nodes-0", "blue")).split("/");
}

function referenceTo({ apiVersion, kind, metadata: { name, uid } }: KubeObject) {
  return { apiVersion, kind, name, uid, controller: true };
}

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi({ kinds: ["metal3-data", "metal3-host"] });
  await world.startController();
  admin = world.cluster.kubeconfig("admin");
  viewer = world.cluster.kubeconfig("viewer");
  await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
  await capi.pool("blue", "blue", { preallocations: { later: "10.1.0.200" } });
  await capi.capiCluster("prod");
  await metal3Machine();
  await world.becomes("blue", "10.1.0.200/24", "Bound");
});
afterAll(() => world?.stop());

test("a machine's address is listed by claim and by cluster, and described with both", async () => {
  const filters = [
    ["--claim", "nodes-0-blue"],
    ["--claim", `${NAMESPACE}/nodes-0-blue`],
    ["--cluster", "prod"],
    ["--cluster", `${NAMESPACE}/prod`],
  ];
  for (const filter of filters) {
    const { items } = await json("list", ...filter);
    expect(items, filter.join(" ")).toMatchObject([
      { address: `${address}/24`, owner: { kind: "addressClaim", name: "nodes-0-blue", cluster: "prod" } },
    ]);
  }
  expect(await cli("list", "--cluster", "other")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("there is no cluster other with an address"),
  });
  const { stdout } = await cli("list", "-o", "wide");
  expect(stdout).toContain(`machine claim ${NAMESPACE}/nodes-0-blue of cluster ${NAMESPACE}/prod`);
  expect(stdout).toContain(`machine claim ${NAMESPACE}/later (to come)`);
  expect((await cli("history", address)).stdout).toContain(`machine claim ${NAMESPACE}/nodes-0-blue`);
  expect((await cli("show", "blue")).stdout).toMatch(/^Holders: +2$/m);
});

test("who shows the owners of a machine's claim up to its Machine, and no guest identity", async () => {
  const { stdout, code } = await cli("who", address);
  expect(code).toBe(0);
  expect(stdout).toContain(
    `IPAddressClaim ${NAMESPACE}/nodes-0-blue, owned by Metal3Data nodes-0, owned by Metal3Machine node-0, owned by Machine node-0; cluster ${NAMESPACE}/prod\n`,
  );
  const document = await json("who", address);
  expect(document.identities).toBeUndefined();
  expect(document.owners).toMatchObject([{ network: "blue", cluster: `${NAMESPACE}/prod` }]);
  expect((await cli("who", "10.1.0.200")).stdout).toContain(`IPAddressClaim ${NAMESPACE}/later (to come)\n`);
});

test("a user with read access sees everything about machines, and releases nothing", async () => {
  expect((await look("who", address)).stdout).toContain("owned by Machine node-0; cluster");
  expect(await look("check", "--grace", "0")).toMatchObject({ code: 0, stderr: "" });
  expect((await look("list", "--cluster", "prod")).stdout).toContain(address);
  const released = await look("release", "10.1.0.200", "--force");
  expect(released).toMatchObject({ code: 1, stdout: "" });
  expect(released.stderr).toContain("the cluster refuses");
  expect(await world.state("blue", "10.1.0.200/24")).toBe("Bound");
});

test("a machine's address has no identity at a daemon, and its daemon releases nothing of it", async () => {
  const { daemon } = await world.startNode("node-a");
  const answer = await askIdentity(daemon, `address=${address}&network=blue`);
  expect({ status: answer.status, code: answer.json().code }).toEqual({ status: 404, code: "NOT_FOUND" });
  const { code, stderr } = await world.cli("--socket", daemon.socket, "release", address, "--force");
  expect(code).toBe(1);
  expect(stderr).toContain(`refuses to read machine claim ${NAMESPACE}/nodes-0-blue`);
  expect(stderr).toContain("--kubeconfig");
});

test("who shows where a chain of owners cannot be followed", async () => {
  await capi.claim("odd", "blue", {
    ownerReferences: [{ apiVersion: "example.com/v1", kind: "Thing", name: "thing", uid: "u1" }],
  });
  const [text = ""] = (await capi.fulfilled("odd")).split("/");
  const said = (await cli("who", text)).stdout;
  expect(said).toContain(`IPAddressClaim ${NAMESPACE}/odd, owned by Thing thing (not read)\n`);
  await capi.deleteClaim("odd");
});

test("a machine's address is not released while its claim exists, and neither is its cluster's", async () => {
  const one = await cli("release", address, "--force");
  expect(one).toMatchObject({ code: 1 });
  expect(one.stderr).toContain(`is in use by machine claim ${NAMESPACE}/nodes-0-blue`);
  const all = await cli("release", "--moved", `${NAMESPACE}/prod`);
  expect(all).toMatchObject({ code: 1 });
  expect(all.stderr).toContain(`Cluster ${NAMESPACE}/prod, which is here`);
  const forced = await cli("release", "--moved", `${NAMESPACE}/prod`, "--force");
  expect(forced).toMatchObject({ code: 1, stdout: "" });
  expect(forced.stderr).toContain(`${address}/24 on network blue is kept: its claim exists here`);
  expect(await world.state("blue", `${address}/24`)).toBe("Bound");
});

test.each([
  [["release"], "expected either an address, or --moved"],
  [["release", "10.1.0.1", "--moved", "a/b"], "expected either an address, or --moved"],
  [["release", "--moved", "a/b", "--network", "blue"], "--network goes with an address only"],
])("%j is refused as a usage error", async (args, message) => {
  const { code, stderr } = await cli(...args);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});

test("what a moved cluster left behind is found by check, and released by hand", async () => {
  await capi.capiCluster("away");
  for (const name of ["a-0", "a-1"]) await capi.claim(name, "blue", { cluster: "away" });
  const told = (await Promise.all(["a-0", "a-1"].map((name) => capi.fulfilled(name)))).sort();
  expect((await json("check", "--grace", "0")).findings).toEqual([]);
  await capi.editCluster("away", { spec: { paused: true } });
  for (const name of ["a-0", "a-1"]) await capi.deleteClaim(name);
  await capi.deleteAddress("a-0");
  await capi.deleteCluster("away");
  await world.until(
    async () => (await world.networkObject("blue"))?.status.pausedClusters?.length === 1,
    "the pause on record",
  );
  expect((await json("check", "--grace", "0")).findings).toMatchObject([
    {
      invariant: "I3",
      message: `2 addresses of network blue are kept for machines of cluster ${NAMESPACE}/away, which moved to another management cluster`,
      hint: expect.stringContaining(`holdfast release --moved ${NAMESPACE}/away`),
    },
  ]);
  const tried = await cli("release", "--moved", `${NAMESPACE}/away`, "--dry-run");
  expect(tried.code).toBe(0);
  for (const one of told) expect(tried.stdout).toContain(`${one} would be released on network blue`);
  expect(await world.state("blue", told[0] as string)).toBe("Bound");
  const done = await cli("release", "--moved", `${NAMESPACE}/away`);
  expect(done).toMatchObject({ code: 0, stderr: "" });
  for (const one of told) {
    expect(done.stdout).toContain(`${one} released on network blue, was held by machine claim`);
    expect(await world.state("blue", one)).toBe("Cooling");
  }
  expect(await capi.address("a-1")).toBeNull();
  await world.until(
    async () => (await world.networkObject("blue"))?.status.pausedClusters?.length === 0,
    "the record to go",
  );
  expect((await json("check", "--grace", "0")).findings).toEqual([]);
});

test("check reports an IPAddress whose claim and allocation are gone until it is deleted", async () => {
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "blue" };
  const annotations = { "ipam.holdfast.dev/allocation": "taken-away" };
  const spec = { address: "10.1.0.201", prefix: 24, claimRef: { name: "forced" }, poolRef };
  await capi.putAddress("forced", spec, { annotations });
  const left = {
    invariant: "I3",
    message: `IPAddress ${NAMESPACE}/forced is left, though its IPAddressClaim and its IPAllocation taken-away are gone`,
    hint: expect.stringContaining(`kubectl delete ipaddresses.ipam.cluster.x-k8s.io -n ${NAMESPACE} forced`),
  };
  const findings = async () => (await json("check", "--grace", "0")).findings;
  expect(await findings()).toEqual([left]);
  await capi.pool("second", "blue", { ranges: ["10.1.0.220-10.1.0.229"] });
  await capi.claim("forced", "second");
  expect(await findings(), "a claim of another pool has its name").toContainEqual(left);
  await capi.deleteAddress("forced");
  await capi.fulfilled("forced");
  expect(await findings()).toEqual([]);
  await capi.deleteClaim("forced");
});

test("check reports an address whose allocation and pool are gone until the pool is recreated", async () => {
  const ranges = ["10.1.0.210-10.1.0.219"];
  await capi.pool("passing", "blue", { ranges });
  await capi.claim("kept", "passing");
  const told = (await capi.fulfilled("kept")) as string;
  await capi.deletePool("passing");
  const findings = async () => (await json("check", "--grace", "0")).findings;
  expect(await findings()).toEqual([]);
  const path = `${ALLOCATIONS_PATH}/${allocationName("blue", parseInterfaceAddress(told).address)}`;
  // Without its state: what is taken from somebody, the controller puts back.
  await world.cluster.api.patch(path, { metadata: { finalizers: null }, status: null });
  await world.cluster.api.delete(path);
  expect(await findings()).toEqual([
    {
      invariant: "I2",
      message: `${told.split("/")[0]}, which IPAddress ${NAMESPACE}/kept names for a machine, has no IPAllocation, and its AddressPool passing is gone`,
      hint: expect.stringContaining("create AddressPool passing"),
    },
  ]);
  await capi.pool("passing", "blue", { ranges });
  await world.until(async () => (await world.state("blue", told)) === "Bound", "the record");
  expect(await findings()).toEqual([]);
  await capi.deleteClaim("kept");
});

test("check does not report an address that a claim keeps while its pool has moved to another network", async () => {
  await world.importedNetwork("red", { subnets: "10.2.0.0/24" });
  await capi.pool("changing", "blue", { ranges: ["10.1.0.230-10.1.0.239"] });
  await capi.claim("settled", "changing");
  const told = (await capi.fulfilled("settled")) as string;
  await capi.editPool("changing", { spec: { network: "red", ranges: null } });
  await capi.untilPool("changing", "NetworkChanged");
  expect(await world.state("blue", told)).toBe("Bound");
  expect((await json("check", "--grace", "0")).findings).toEqual([]);
  await capi.deleteClaim("settled");
});

test("check does not report another provider's IPAddress on the pool's former network", async () => {
  await world.importedNetwork("grey", { subnets: "10.3.0.0/24" });
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "passed" };
  // A pool that gives nothing: the answer is recorded, and left as it is.
  await capi.pool("passed", "blue", { ranges: ["10.1.0.240/29"], preallocations: { other: "10.1.0.99" } });
  await capi.untilPool("passed", "PreallocationInvalid");
  await capi.claim("told", "passed");
  await capi.putAddress("told", { address: "10.1.0.241", prefix: 24, claimRef: { name: "told" }, poolRef });
  await world.until(async () => (await world.state("blue", "10.1.0.241/24")) === "Bound", "the record");
  await capi.editPool("passed", { spec: { network: "grey", ranges: null, preallocations: null } });
  await capi.untilPool("passed", "NetworkChanged");
  expect((await json("check", "--grace", "0")).findings).toEqual([]);
  await capi.deleteClaim("told");
});

test("check reports an IPAddress that names a claim of another address until it is deleted", async () => {
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "blue" };
  await capi.claim("answered", "blue", { cluster: "prod" });
  await capi.fulfilled("answered");
  const spec = { address: "10.1.0.202", prefix: 24, claimRef: { name: "answered" }, poolRef };
  await capi.putAddress("stranger", spec);
  expect((await json("check", "--grace", "0")).findings).toEqual([
    {
      invariant: "I2",
      message: `10.1.0.202 of network blue is in IPAddress ${NAMESPACE}/stranger, which does not answer claim ${NAMESPACE}/answered though it names it: pods may get the address`,
      hint: expect.stringContaining(`kubectl delete ipaddresses.ipam.cluster.x-k8s.io -n ${NAMESPACE} stranger`),
    },
  ]);
  await capi.deleteAddress("stranger");
  expect((await json("check", "--grace", "0")).findings).toEqual([]);
});
