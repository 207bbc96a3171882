import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { asDaemonOf } from "../harness/admission.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, interfaceOf } from "../harness/kubevirt.ts";
import { NAMESPACE, Scenario } from "./scenario.ts";
import { nameOf, type TestNetwork } from "./scenario-parts.ts";

/*
 * The daemons of two nodes and the controller at work while the API server enforces deploy/admission: everything that they
 * write is let pass, and a token stolen from one node changes nothing of the other's.
 */

const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const NETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";
const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({
    nodes: ["node-a", "node-b"],
    admission: true,
    controller: { sweepGraceSeconds: 1, sweepIntervalSeconds: 1 },
  });
});
afterEach(async () => {
  await scene.expectClean();
});
afterAll(() => scene?.stop());

const nic = (network: TestNetwork) => ({ ifname: interfaceOf(network.name) });

/** A request with the token of a node's daemon; null: a token that is bound to no node. */
function asThief(node: string | null, method: string, path: string, body: unknown, type = MERGE_PATCH) {
  return scene.cluster.api.call(method, path, body as object, { "content-type": type, ...asDaemonOf(node) });
}

test("a VM's life over both nodes, pods, a lost object and a killed daemon: nothing that they write is refused", async () => {
  const network = await scene.network("life", { subnets: "10.0.0.0/29,fd00::/125", cooldownSeconds: 0 });
  const vm = await scene.vm("vm", network);
  const { pod: source } = await scene.kubevirt.startVm(vm, "node-a");
  const ips = await scene.given(source, network, nic(network));
  const target = await scene.kubevirt.migrate(vm, "node-b", "Pending");
  expect(await scene.given(target, network, nic(network))).toEqual(ips);
  await scene.kubevirt.finishPod(source);
  await scene.del(source, network, nic(network));
  await scene.kubevirt.removePod(source);
  await scene.untilOwnerPod(claimName(vm, network.name), target);

  // More pods than the network has addresses, one after the other: what rests is taken over, by the other node too.
  for (let index = 0; index < 6; index += 1) {
    const pod = await scene.pod(`pod-${index}`, `node-${"ab"[index % 2]}`, network);
    await scene.given(pod, network);
    expect(await scene.given(pod, network, { containerId: `second-${index}` })).toHaveLength(2);
    await scene.del(pod, network, { containerId: `second-${index}` });
    await scene.kubevirt.removePod(pod);
  }

  // Somebody deletes an object by force; the daemon restores it at its next comparison.
  const path = `${ALLOCATIONS}/${nameOf(network.name, ips[0] as string)}`;
  await scene.cluster.api.patch(path, { metadata: { finalizers: null } });
  await scene.cluster.api.delete(path).catch(() => {});
  await scene.node("node-b").restart();
  await scene.untilUsers(network, ips[0] as string, target);

  await scene.kubevirt.stopVm(vm);
  await scene.del(target, network, nic(network));
  for (const ip of ips) await scene.untilUsers(network, ip);
  await scene.kubevirt.deleteVm(vm);
  for (const ip of ips) await scene.untilState(network, ip, "Cooling");

  expect(scene.admission.refusals).toEqual([]);
  // Who writes an IPNetwork first, a daemon or the controller, is chance.
  const seen = new Set(
    scene.admission.reviews.map(({ request, policies }) => `${request.operation} ${policies.join()}`),
  );
  for (const one of [
    "CREATE holdfast-node-allocations",
    "UPDATE holdfast-node-allocations",
    "UPDATE holdfast-node-claims",
  ])
    expect([...seen]).toContain(one);
});

test("a token stolen from node-b changes nothing of node-a's, and one of no node nothing at all", async () => {
  const network = await scene.network("stolen");
  const pod = await scene.pod("victim", "node-a", network);
  const [ip] = (await scene.given(pod, network)) as [string];
  const vm = await scene.vm("asleep", network);
  const { pod: launcher } = await scene.kubevirt.startVm(vm, "node-a");
  const [vmIp] = (await scene.given(launcher, network, nic(network))) as [string];
  await scene.kubevirt.stopVm(vm);
  await scene.del(launcher, network, nic(network));
  await scene.untilUsers(network, vmIp);

  const victim = `${ALLOCATIONS}/${nameOf("stolen", ip)}`;
  const asleep = `${ALLOCATIONS}/${nameOf("stolen", vmIp)}`;
  const claim = `${pathOf(NAMESPACE, "ipamclaims", claimName(vm, "stolen"), "k8s.cni.cncf.io/v1alpha1")}/status`;
  const before = await Promise.all([victim, asleep, claim].map((path) => scene.cluster.api.get(path)));
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
  const after = await Promise.all([victim, asleep, claim].map((path) => scene.cluster.api.get(path)));
  expect(after.map(({ spec, status }) => ({ spec, status }))).toEqual(
    before.map(({ spec, status }) => ({ spec, status })),
  );
  scene.admission.reviews.length = 0;
});

/** An allocation whose container would run on a node. */
function forged(node: string): KubeObject {
  return {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPAllocation",
    metadata: { name: "forged", finalizers: ["ipam.holdfast.dev/bound"] },
    spec: { network: "stolen", address: "10.0.0.77/24", owner: { kind: "Pod", uid: "x" } },
    status: { state: "Bound", attachments: { "x.net1": { containerID: "x", interface: "net1", node } } },
  };
}

test("a refusal of the server's is told as what it is, and the next ADD that it lets pass is served", async () => {
  const network = await scene.network("refused");
  const pod = await scene.pod("refused", "node-a", network);
  // As if the daemon had a token of another node.
  const stop = scene.admission.refuse("node-a");
  const message = await scene.refused(pod, network, 11);
  stop();
  expect(message).toMatch(/the API server refuses to create an IPAllocation: 403 .*denied the request/);
  await scene.given(pod, network);
});
