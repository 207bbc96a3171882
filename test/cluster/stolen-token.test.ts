/** What a stolen token of a node does to whose a network is, and what becomes of an IPNetwork that is deleted. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { NETWORK_FINALIZER, NETWORKS_PATH, objectPath } from "../../kube/objects.ts";
import { RECORDED_OWNER_ANNOTATION } from "../../networks/network-owner.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** Several passes of the controller and of the garbage collector, ms. */
const PASSES_MS = 10_000;
const GONE = { apiVersion: "v1", kind: "Node", name: "gone", uid: "0" };

let world: World;

beforeAll(async () => {
  world = await World.start({
    api: "memory",
    nodes: ["node-a", "node-b"],
    admission: true,
    controller: { coolingKeepSeconds: 1 },
  });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const path = (network: string) => objectPath(NETWORKS_PATH, network);
const read = (network: string): Promise<KubeObject | null> => world.cluster.api.find(path(network));

/** A network whose owner is recorded and that a pod uses. */
async function used(name: string): Promise<{ network: Network; pod: KubeObject; object: KubeObject }> {
  const network = await world.network(name, { cooldownSeconds: 0 });
  const pod = await world.pod(`${name}-pod`, "node-a", network);
  await world.given(pod, network);
  await world.until(async () => (await read(name))?.status?.allocated === "1", "the count");
  return { network, pod, object: (await read(name)) as KubeObject };
}

async function release(pod: KubeObject, network: Network): Promise<void> {
  await world.del(pod, network);
  await world.kubevirt.removePod(pod);
}

test("the garbage collector cannot be made to delete a network, so that it can be recorded as another's", async () => {
  const { object } = await used("blue");
  const thief = (world.cluster as MemoryCluster).connectThief("node-b")("", world.cluster.time.clock);
  const send = async (method: "POST" | "PATCH", to: string, body: object) => {
    const deadlineMs = thief.clock.monotonicMs() + 5_000;
    const patch = method === "PATCH" ? ({ patch: "merge" } as const) : {};
    const sent = thief.send({ method, path: to, body, priority: "add", deadlineMs, ...patch });
    return (await world.cluster.time.run(sent)).status;
  };
  const mine = (metadata: object) => ({
    ...{ apiVersion: object.apiVersion, kind: "IPNetwork", spec: { network: "blue", definedIn: "evil" } },
    metadata: { name: "blue", finalizers: [NETWORK_FINALIZER], ...metadata },
  });
  expect(await send("PATCH", path("blue"), { spec: { definedIn: "evil" } })).toBe(403);
  expect(await send("PATCH", path("blue"), { metadata: { ownerReferences: [GONE] } })).toBe(403);
  expect(await send("PATCH", path("blue"), { metadata: { finalizers: null } })).toBe(403);
  await world.advance(PASSES_MS);
  expect(await send("POST", NETWORKS_PATH, mine({}))).toBe(403);
  expect(await send("POST", NETWORKS_PATH, mine({ annotations: { [RECORDED_OWNER_ANNOTATION]: "evil" } }))).toBe(409);
  const { metadata, spec } = (await read("blue")) as KubeObject;
  expect({ uid: metadata.uid, definedIn: spec.definedIn }).toEqual({
    uid: object.metadata.uid,
    definedIn: NAMESPACE,
  });
});

test("an IPNetwork that the garbage collector or an administrator deletes stays while an address is used, then goes", async () => {
  const { network, pod, object } = await used("green");
  await world.cluster.api.patch(path("green"), { metadata: { ownerReferences: [GONE] } });
  await world.until(async () => (await read("green"))?.metadata.deletionTimestamp !== undefined, "its deletion");
  await world.advance(PASSES_MS);
  expect((await read("green"))?.spec).toEqual(object.spec);
  const other = await world.pod("green-other", "node-b", network);
  await world.given(other, network);
  const nad = pathOf(NAMESPACE, "network-attachment-definitions", "green", "k8s.cni.cncf.io/v1");
  await world.cluster.api.delete(nad);
  await release(pod, network);
  await release(other, network);
  await world.until(async () => (await read("green")) === null, "the IPNetwork to go");
});

test("an IPNetwork that was deleted without the controller is restored with its owner, and imported again", async () => {
  await used("red");
  await world.cluster.api.patch(path("red"), {
    metadata: { annotations: { [RECORDED_OWNER_ANNOTATION]: null } },
    spec: { sharedWith: ["bank"] },
  });
  const before = (await read("red")) as KubeObject;
  await world.until(async () => (await read("red"))?.spec.sharedWith !== undefined, "the share");
  await world.advance(PASSES_MS);
  await world.cluster.api.patch(path("red"), { metadata: { finalizers: null } });
  await world.cluster.api.delete(path("red"));
  await world.until(async () => {
    const now = await read("red");
    return now !== null && now.metadata.uid !== before.metadata.uid && now.status?.conditions?.[0]?.status === "True";
  }, "the IPNetwork to be restored and imported");
  const { metadata, spec } = (await read("red")) as KubeObject;
  expect(spec).toEqual({ network: "red", definedIn: NAMESPACE, sharedWith: ["bank"] });
  expect(metadata.annotations).toBeUndefined();
  expect(metadata.finalizers).toEqual([NETWORK_FINALIZER]);
});

test("an unused IPNetwork that an administrator created goes when he deletes it, and the controller protects it until then", async () => {
  await world.cluster.api.create(NETWORKS_PATH, {
    ...{ apiVersion: "ipam.holdfast.dev/v1alpha1", kind: "IPNetwork", metadata: { name: "planned" } },
    spec: { network: "planned", definedIn: NAMESPACE },
  });
  await world.until(async () => (await read("planned"))?.metadata.finalizers !== undefined, "the finalizer");
  await world.cluster.api.delete(path("planned"));
  await world.until(async () => (await read("planned")) === null, "the IPNetwork to go");
});
