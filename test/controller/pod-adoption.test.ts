import { afterAll, beforeAll, expect, test } from "vitest";
import { ALLOCATIONS_PATH, NADS_PATH, namespacedPath } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { mirrorOf, pathOf } from "../harness/kube-pods.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { podOwner } from "../harness/world/objects.ts";
import { Tenant } from "../harness/world/tenant.ts";
import { World } from "../harness/world/world.ts";

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const POOLS = "whereabouts.cni.cncf.io/v1alpha1";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  await world.startController({ coolingKeepSeconds: 0 });
});
afterAll(() => world?.stop());

function pod(name: string, nad: string, ips: readonly string[]): Promise<KubeObject> {
  return world.kubevirt.createPod(NAMESPACE, name, {
    node: "n1",
    networks: [{ name: nad }],
    annotations: { [STATUS]: JSON.stringify([{ name: `${NAMESPACE}/${nad}`, interface: "net1", ips }]) },
  });
}

async function eventOf(object: KubeObject, reason: string): Promise<string> {
  let found: KubeObject;
  await world.until(async () => {
    const events = await world.cluster.api.list(pathOf(NAMESPACE, "events"));
    found = events.find((one) => one.reason === reason && one.involvedObject.uid === object.metadata.uid);
    return found !== undefined;
  }, `an event ${reason}`);
  return found.message;
}

test("an address that a pod reports after the import is recorded, and released with the pod", async () => {
  await world.importedNetwork("adopted", { subnets: "10.50.0.0/24" });
  const late = await pod("late", "adopted", ["10.50.0.7"]);
  await world.becomes("adopted", "10.50.0.7/24", "Bound");
  expect((await world.allocation("adopted", "10.50.0.7/24"))?.spec.owner).toMatchObject({
    kind: "Pod",
    uid: late.metadata.uid,
    interface: "net1",
  });
  const thief = await pod("thief", "adopted", ["10.50.0.7"]);
  expect(await eventOf(thief, "IPAddressConflict")).toContain("held by pod shop/late (net1)");
  await world.kubevirt.endPod(late);
  await world.becomes("adopted", "10.50.0.7/24", "Cooling");
});

test("an imported pod that is force-deleted keeps its address until its node is deleted", async () => {
  await world.kubevirt.createNode("n2");
  await world.importedNetwork("forced", { subnets: "10.55.0.0/24" });
  const annotations = (ip: string) => ({
    [STATUS]: JSON.stringify([{ name: `${NAMESPACE}/forced`, interface: "net1", ips: [ip] }]),
  });
  const forced = await world.kubevirt.createPod(NAMESPACE, "forced", {
    node: "n2",
    annotations: annotations("10.55.0.7"),
  });
  await world.becomes("forced", "10.55.0.7/24", "Bound");
  // Recorded by hand, without its node.
  const byHand = await world.kubevirt.createPod(NAMESPACE, "by-hand", { node: "n2" });
  await world.allocate("forced", "10.55.0.8/24", podOwner(byHand));
  const nodeOf = async (address: string) => (await world.allocation("forced", address))?.status.node;
  expect(await nodeOf("10.55.0.7/24")).toBe("n2");
  await world.until(async () => (await nodeOf("10.55.0.8/24")) === "n2", "its node to be recorded");
  for (const pod of [forced, byHand]) await world.kubevirt.removePod(pod);
  for (const host of [7, 8]) await world.stays("forced", `10.55.0.${host}/24`);
  await world.kubevirt.deleteNode("n2");
  for (const host of [7, 8]) await world.becomes("forced", `10.55.0.${host}/24`, "Cooling");
});

test("a pod of the default network is recorded with the address that the kubelet reports", async () => {
  const { api } = world.cluster;
  await api.create("/apis/ipam.holdfast.dev/v1alpha1/ipnetworks", {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPNetwork",
    metadata: { name: "cbr0" },
    spec: { network: "cbr0" },
    status: {
      importedFrom: [{ subnets: "10.244.0.0/24" }],
      conditions: [
        {
          type: "Imported",
          status: "True",
          reason: "Imported",
          message: "",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    },
  });
  const own = await world.kubevirt.createPod(NAMESPACE, "own", { node: "n1" });
  await api.patch(`${pathOf(NAMESPACE, "pods", "own")}/status`, {
    status: { podIP: "10.244.0.9", podIPs: [{ ip: "10.244.0.9" }] },
  });
  await world.becomes("cbr0", "10.244.0.9/24", "Bound");
  expect((await world.allocation("cbr0", "10.244.0.9/24"))?.spec.owner).toMatchObject({
    kind: "Pod",
    uid: own.metadata.uid,
    interface: "eth0",
  });
});

test("an address that only whereabouts records is held until its entry is deleted", async () => {
  const { api } = world.cluster;
  const allocations = {
    "1": { id: "c1", podref: `${NAMESPACE}/force-deleted`, ifname: "net1" },
    "2": { id: "c2", podref: `${NAMESPACE}/also-gone`, ifname: "net1" },
  };
  const pools = pathOf("kube-system", "ippools", "", POOLS);
  const metadata = { name: "10.51.0.0-24", namespace: "kube-system" };
  await api.create(pools, {
    apiVersion: POOLS,
    kind: "IPPool",
    metadata,
    spec: { range: "10.51.0.0/24", allocations },
  });
  await world.importedNetwork("recorded", { subnets: "10.51.0.0/24" });
  for (const host of [1, 2]) expect(await world.state("recorded", `10.51.0.${host}/24`)).toBe("Bound");
  await api.patch(`${pools}/${metadata.name}`, { spec: { allocations: { "1": null } } });
  await world.becomes("recorded", "10.51.0.1/24", "Cooling");
  await world.stays("recorded", "10.51.0.2/24");
  // Without the pool nobody says that the container has ended.
  await api.delete(`${pools}/${metadata.name}`);
  await world.stays("recorded", "10.51.0.2/24");
});

const NETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";

/** An IPNetwork as an administrator makes one with kubectl. */
function reserve(name: string, spec: object = {}): Promise<KubeObject> {
  const head = { apiVersion: "ipam.holdfast.dev/v1alpha1", kind: "IPNetwork", metadata: { name } };
  return world.cluster.api.create(NETWORKS, { ...head, spec: { network: name, ...spec } });
}

test("a network without NAD and pods keeps its IPNetwork until its last address is gone", async () => {
  // Used and left behind like the other one, but an administrator said whose they are.
  await reserve("beforehand", { definedIn: NAMESPACE });
  for (const name of ["beforehand", "moved"]) await world.importedNetwork(name, { subnets: "10.56.0.0/24" });
  const flags = ["--kubeconfig", world.cluster.kubeconfig("admin")];
  const own = [...flags, "networks", "own", "moved", "--namespace", "bank"];
  expect((await world.cli(...own)).stdout).toContain("moved belongs to bank");
  for (const name of ["beforehand", "moved"])
    await world.cluster.api.delete(namespacedPath(NADS_PATH, NAMESPACE, name));
  await world.importedNetwork("leaving", { subnets: "10.53.0.0/24" });
  await world.importedNetwork("mistyped", { subnets: "10.54.0.0/24" });
  const wrong = {
    ...JSON.parse(configOf("mistyped", { subnets: "10.54.0.0/24" })),
    ipam: { type: "holdfast-ipam", subnets: "10.54.0" },
  };
  await world.cluster.api.patch(namespacedPath(NADS_PATH, NAMESPACE, "mistyped"), {
    spec: { config: JSON.stringify(wrong) },
  });
  const path = namespacedPath(NADS_PATH, NAMESPACE, "leaving");
  const claim = await world.claim("leaving", "leaving", { ips: ["10.53.0.4/24"] });
  await world.becomes("leaving", "10.53.0.4/24", "Bound");
  await world.until(async () => (await world.networkObject("leaving"))?.status.allocated === "1", "one to be counted");
  await world.cluster.api.delete(path);
  await world.until(
    async () => (await world.networkObject("leaving"))?.status.size === undefined,
    "no size to be shown",
  );
  expect((await world.networkObject("leaving"))?.status).toMatchObject({ allocated: "1", cooling: "0" });
  await world.deleteClaim(claim.metadata.name);
  await world.becomes("leaving", "10.53.0.4/24", "Cooling");
  await world.until(async () => (await world.networkObject("leaving"))?.status.cooling === "1", "it to be counted");
  const cooling = await world.allocation("leaving", "10.53.0.4/24");
  await world.cluster.api.delete(`${ALLOCATIONS_PATH}/${cooling?.metadata.name}`);
  await world.until(async () => (await world.networkObject("leaving")) === null, "the IPNetwork to go");
  expect(await world.networkObject("mistyped"), "its definition is there, and wrong").not.toBeNull();
  // Made beforehand by an administrator, and never used.
  await reserve("reserved");
  await world.advance(6_000);
  for (const [name, definedIn] of [
    ["reserved", undefined],
    ["beforehand", NAMESPACE],
    ["moved", "bank"],
  ]) {
    expect((await world.networkObject(name as string))?.spec, name).toMatchObject({ network: name });
    expect((await world.networkObject(name as string))?.spec.definedIn).toBe(definedIn);
  }
});

test("a NAD that joins an imported network is imported, and again when another plugin may have served it", async () => {
  await world.importedNetwork("rejoined", { subnets: "10.52.0.0/24" });
  await pod("rejoined", "rejoined-too", ["10.52.0.3"]);
  const nad = await world.kubevirt.createNad(
    NAMESPACE,
    "rejoined-too",
    configOf("rejoined", { subnets: "10.52.0.0/24" }),
  );
  await world.becomes("rejoined", "10.52.0.3/24", "Bound");
  const status = async () => (await world.networkObject("rejoined"))?.status;
  const covers = (generation: number) =>
    world.until(
      async () => (await status())?.importedFrom.some((one: KubeObject) => one.generation === generation),
      `generation ${generation} to be covered`,
    );
  await world.until(async () => (await status())?.importedFrom.length === 2, "both NADs to be covered");
  await pod("rejoined-later", "rejoined-too", ["10.52.0.4"]);
  await world.becomes("rejoined", "10.52.0.4/24", "Bound");
  const edit = (text: string) =>
    world.cluster.api.patch(namespacedPath(NADS_PATH, NAMESPACE, "rejoined-too"), { spec: { config: text } });
  await edit(`${nad.spec.config} `);
  await covers(2);
  expect((await status()).conditions[0].message, "nothing is imported").toMatch(/^1 addresses/);
  await edit(nad.spec.config.replace("holdfast-ipam", "whereabouts"));
  await edit(nad.spec.config);
  await covers(4);
  expect((await status()).conditions[0].message).toMatch(/^2 addresses/);
});

test("annotations on a tenant's pod cannot reserve the gateway, nor more than eight addresses of a subnet", async () => {
  const evil = await Tenant.create(world.cluster, "evil");
  const host = (n: number) => `10.55.${n >> 8}.${n & 255}`;
  const notes = (first: number, count: number) => {
    const interfaces = Array.from({ length: count }, (_, i) => ({
      interface: `i${first + i}`,
      n: first + i,
    }));
    const named = interfaces.map((one) => ({
      name: "victim",
      namespace: NAMESPACE,
      interface: one.interface,
    }));
    const status = interfaces.map((one) => ({
      name: `${NAMESPACE}/victim`,
      interface: one.interface,
      ips: [host(one.n)],
    }));
    return { "k8s.v1.cni.cncf.io/networks": JSON.stringify(named), [STATUS]: JSON.stringify(status) };
  };
  const bound = async () => {
    const all = await world.cluster.api.list(ALLOCATIONS_PATH);
    return all.filter(({ spec, status }) => spec.network === "victim" && status.state === "Bound");
  };
  const path = pathOf("evil", "pods");
  const create = (name: string, spec: object, metadata: object) =>
    evil.api.create(path, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "evil", ...metadata },
      spec: { schedulerName: "nobody", containers: [{ name: "main", image: "none" }], ...spec },
    });
  try {
    await world.importedNetwork("victim", { subnets: "10.55.0.0/22", gateway: "10.55.0.1" });
    await create("unscheduled", {}, { annotations: notes(1, 250) });
    const mirror = mirrorOf("deadbeefdeadbeef", "no-such-node");
    await create(
      "mirror",
      { nodeName: "no-such-node" },
      {
        ownerReferences: mirror.ownerReferences,
        annotations: { ...mirror.annotations, ...notes(300, 250) },
      },
    );
    // One that runs. Each new version of it claims others.
    const running = await create("running", { nodeName: "n1" }, { annotations: notes(1, 250) });
    await world.kubevirt.setPhase(running, "Running");
    await world.becomes("victim", `${host(2)}/22`, "Bound");
    expect(await world.state("victim", `${host(1)}/22`)).toBe("none");
    await world.until(async () => (await bound()).length === 8, "what it may have to be recorded");
    for (const first of [600, 700]) {
      await evil.api.patch(`${path}/running`, { metadata: { annotations: notes(first, 90) } });
      await world.stays("victim", `${host(2)}/22`);
    }
    const owners = (await bound()).map(({ spec }) => spec.owner.uid);
    expect(owners).toEqual(Array(8).fill(running.metadata.uid));
  } finally {
    evil.close();
  }
});
