import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { asDaemonOf, widerRights } from "../harness/admission.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network, nameOf } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/*
 * The daemons of two nodes and the controller at work while the API server enforces deploy/admission: everything that
 * they write is let pass, and a token stolen from one node changes nothing of the other's.
 */

const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const NETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";
const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";

let world: World;

beforeAll(async () => {
  world = await World.start({
    api: "server",
    nodes: ["node-a", "node-b"],
    admission: true,
    controller: { sweepGraceSeconds: 1, sweepIntervalSeconds: 1 },
  });
  await world.cluster.apply(widerRights());
});
afterEach(async () => {
  await world.settled();
});
afterAll(() => world?.stop());

const nic = (network: Network) => ({ ifname: interfaceOf(network.name) });

/** A request with the token of a node's daemon; null: a token that is bound to no node. */
function asThief(node: string | null, method: string, path: string, body: unknown, type = MERGE_PATCH) {
  return world.cluster.api.call(method, path, body as object, { "content-type": type, ...asDaemonOf(node) });
}

test("the admission policies refuse no write of a daemon in normal use", async () => {
  const network = await world.network("life", { subnets: "10.0.0.0/29,fd00::/125", cooldownSeconds: 0 });
  const vm = await world.vm("vm", network);
  const { pod: source } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(source, network, nic(network));
  const target = await world.kubevirt.migrate(vm, "node-b", "Pending");
  expect(await world.given(target, network, nic(network))).toEqual(ips);
  await world.kubevirt.finishPod(source);
  await world.del(source, network, nic(network));
  await world.kubevirt.removePod(source);
  await world.untilOwnerPod(claimName(vm, network.name), target);

  // More pods than the network has addresses, one after the other: what cools down is taken over, by the other node
  // too.
  for (let index = 0; index < 6; index += 1) {
    const pod = await world.pod(`pod-${index}`, `node-${"ab"[index % 2]}`, network);
    await world.given(pod, network);
    expect(await world.given(pod, network, { containerId: `second-${index}` })).toHaveLength(2);
    await world.del(pod, network, { containerId: `second-${index}` });
    await world.kubevirt.removePod(pod);
  }

  // Somebody deletes an object by force; the daemon restores it at its next comparison.
  const path = `${ALLOCATIONS}/${nameOf(network.name, ips[0] as string)}`;
  await world.cluster.api.patch(path, { metadata: { finalizers: null } });
  await world.cluster.api.delete(path).catch(() => {});
  await world.node("node-b").restart();
  await world.untilUsers(network, ips[0] as string, target);

  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(target, network, nic(network)) });
  for (const ip of ips) await world.untilUsers(network, ip);
  await world.kubevirt.deleteVm(vm);
  for (const ip of ips) await world.becomes(network, ip, "Cooling");

  expect(world.admission.refusals).toEqual([]);
  // Who writes an IPNetwork first, a daemon or the controller, is chance.
  const seen = new Set(
    world.admission.reviews.map(({ request, policies }) => `${request.operation} ${policies.join()}`),
  );
  for (const one of [
    "CREATE holdfast-node-allocations",
    "UPDATE holdfast-node-allocations",
    "UPDATE holdfast-node-claims",
  ])
    expect([...seen]).toContain(one);
});

test("a stolen node token cannot change another node's objects, and a token without a node none", async () => {
  const network = await world.network("stolen");
  const pod = await world.pod("victim", "node-a", network);
  const [ip] = (await world.given(pod, network)) as [string];
  const vm = await world.vm("asleep", network);
  const { pod: launcher } = await world.kubevirt.startVm(vm, "node-a");
  const [vmIp] = (await world.given(launcher, network, nic(network))) as [string];
  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(launcher, network, nic(network)) });
  await world.untilUsers(network, vmIp);

  const victim = `${ALLOCATIONS}/${nameOf("stolen", ip)}`;
  const asleep = `${ALLOCATIONS}/${nameOf("stolen", vmIp)}`;
  const claim = `${pathOf(NAMESPACE, "ipamclaims", claimName(vm, "stolen"), "k8s.cni.cncf.io/v1alpha1")}/status`;
  const before = await Promise.all([victim, asleep, claim].map((path) => world.cluster.api.get(path)));
  const cool = { metadata: { finalizers: null }, status: { state: "Cooling", attachments: null } };
  const owner = { kind: "Pod", uid: "thief", namespace: "evil", name: "thief", interface: "net1" };
  const attempts: [string, string, unknown, string?][] = [
    ["PATCH", victim, cool],
    ["PATCH", victim, { status: { attachments: null } }],
    ["PATCH", victim, { spec: { owner } }],
    ["PATCH", victim, { metadata: { finalizers: null } }],
    ["PATCH", victim, [{ op: "replace", path: "/spec/owner/uid", value: "thief" }], JSON_PATCH],
    ["PATCH", asleep, cool],
    ["PATCH", asleep, { spec: { owner } }],
    ["PATCH", asleep, { spec: { vm: { name: "thief", uid: "thief" } } }],
    ["PATCH", claim, { status: { ips: ["10.0.0.99/24"] } }],
    ["PATCH", claim, { status: { ips: [] } }],
    ["PATCH", `${NETWORKS}/stolen`, { spec: { network: "another" } }],
    ["POST", ALLOCATIONS, forged("node-a"), "application/json"],
  ];
  for (const [method, path, body, type] of attempts) {
    const answer = await asThief("node-b", method, path, body, type);
    expect(answer.status, `${method} ${path} ${JSON.stringify(body)}`).toBe(403);
    expect(answer.body.message).toMatch(/denied the request: /);
  }
  for (const body of [forged("node-a"), forged("node-b")]) {
    const answer = await asThief(null, "POST", ALLOCATIONS, body, "application/json");
    expect(answer.body.message).toContain("the token is not bound to a node");
  }
  const after = await Promise.all([victim, asleep, claim].map((path) => world.cluster.api.get(path)));
  expect(after.map(({ spec, status }) => ({ spec, status }))).toEqual(
    before.map(({ spec, status }) => ({ spec, status })),
  );
  world.admission.reviews.length = 0;
});

test("the garbage collector cannot be made to delete a network, so that a stolen token records it as another's", async () => {
  const network = await world.network("kept");
  const pod = await world.pod("kept-pod", "node-a", network);
  await world.given(pod, network);
  const path = `${NETWORKS}/kept`;
  const before = await world.cluster.api.get(path);
  const gone = { apiVersion: "v1", kind: "Node", name: "gone", uid: "0" };
  const record = { annotations: { "ipam.holdfast.dev/recorded-owner": "evil" } };
  const mine = (metadata: object) => ({
    ...{ apiVersion: before.apiVersion, kind: "IPNetwork", spec: { network: "kept", definedIn: "evil" } },
    metadata: { name: "kept", finalizers: before.metadata.finalizers, ...metadata },
  });
  const attempts: [string, string, object, number][] = [
    ["PATCH", path, { spec: { definedIn: "evil" } }, 403],
    ["PATCH", path, { metadata: { ownerReferences: [gone] } }, 403],
    ["PATCH", path, { metadata: { finalizers: null } }, 403],
    ["POST", NETWORKS, mine({}), 403],
    ["POST", NETWORKS, mine(record), 409],
  ];
  for (const [method, to, body, status] of attempts) {
    const type = method === "POST" ? "application/json" : MERGE_PATCH;
    const answer = await asThief("node-b", method, to, body, type);
    expect(answer.status, `${method} ${JSON.stringify(body)}`).toBe(status);
  }
  // An administrator's owner reference does what the thief's would: the object is marked, stays, and keeps its owner.
  await world.cluster.api.patch(path, { metadata: { ownerReferences: [gone] } });
  const read = () => world.cluster.api.get(path);
  await world.until(async () => (await read()).metadata.deletionTimestamp !== undefined, "the garbage collector");
  expect((await asThief("node-b", "POST", NETWORKS, mine(record), "application/json")).status).toBe(409);
  const { metadata, spec } = await read();
  expect({ uid: metadata.uid, spec }).toEqual({ uid: before.metadata.uid, spec: before.spec });
  await world.del(pod, network);
  await world.kubevirt.removePod(pod);
  await world.until(
    async () => (await world.cluster.api.find(path))?.metadata.uid !== before.metadata.uid,
    "the IPNetwork to go once nothing uses it",
  );
  world.admission.reviews.length = 0;
});

/** An allocation whose container would run on a node. */
function forged(node: string): KubeObject {
  return {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPAllocation",
    metadata: { name: "forged", finalizers: ["ipam.holdfast.dev/bound"] },
    spec: { network: "stolen", address: "10.0.0.77/24", owner: { kind: "Pod", uid: "x" } },
    status: { state: "Bound", attachments: { "x/net1": { node } } },
  };
}

test("a refusal by admission is reported with its message, and the next ADD is served", async () => {
  const network = await world.network("refused");
  const pod = await world.pod("refused", "node-a", network);
  // As if the daemon had a token of another node.
  const stop = world.admission.refuse("node-a");
  const message = await world.refused(pod, network, 11);
  stop();
  expect(message).toMatch(/the API server refuses to create an IPAllocation: 403 .*denied the request/);
  await world.given(pod, network);
});
