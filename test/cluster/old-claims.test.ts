/** The definition of IPAMClaims from before it knew ownerPod and conditions is installed. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipamclaims.k8s.cni.cncf.io";
const NODES = ["node-a", "node-b"];

let world: World;

async function statusWrites(): Promise<number> {
  return (await world.cluster.writes("ipamclaims/status")).total;
}

async function versionOf(claim: string): Promise<string> {
  return (await world.readClaim(claim)).metadata.resourceVersion;
}

function podOf(name: string, node: string, network: Network, claim: string): Promise<KubeObject> {
  return world.pod(name, node, network, { "ipam-claim-reference": claim });
}

/** One life of a VM on a node, from its launcher pod's ADD to its DEL; the addresses. */
async function runOnce(vm: Vm, node: string, network: Network): Promise<string[]> {
  const { pod } = await world.kubevirt.startVm(vm, node);
  const options = { ifname: interfaceOf(network.name) };
  const ips = await world.given(pod, network, options);
  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, options) });
  // What is written after an answer has been written when the attachment is gone and nothing is pending.
  for (const ip of ips) await world.untilUsers(network, ip);
  return ips;
}

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: NODES, cluster: { oldClaims: true } });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

test("a VM keeps its addresses, and its claim is not written again at every start", async () => {
  const network = await world.network("old");
  const vm = await world.vm("old", network);
  const ips = await runOnce(vm, "node-a", network);
  const claim = claimName(vm, "old");
  expect((await world.readClaim(claim)).status).toEqual({ ips });
  // The other node has yet to learn what the server drops.
  expect(await runOnce(vm, "node-b", network)).toEqual(ips);
  await world.until(async () => (await statusWrites()) === 2, "one write of each node");
  const [before, version] = [await statusWrites(), await versionOf(claim)];
  for (const node of [...NODES, ...NODES]) expect(await runOnce(vm, node, network)).toEqual(ips);
  expect(await statusWrites()).toBe(before);
  expect(await versionOf(claim)).toBe(version);
});

test("a refusal is reported by an event on the pod, and the claim is not written", async () => {
  const network = await world.network("mute");
  await world.claim("mute", "mute", { ips: ["10.99.0.1/24"] });
  const pod = await podOf("mute", "node-b", network, "mute");
  const version = await versionOf("mute");
  await world.refused(pod, network, 121);
  expect(await world.untilEvent(pod, "AddressOutside")).toContain("10.99.0.1");
  await world.refused(pod, network, 121);
  expect(await versionOf("mute")).toBe(version);
});

test("claims work where the definition has ownerPod as a string", async () => {
  const path = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/ownerPod";
  await world.cluster.api.patch(DEFINITION, [{ op: "add", path, value: { type: "string" } }], "json");
  const network = await world.network("text");
  // Until the server serves the new definition it drops the field.
  for (let attempt = 0; ; attempt += 1) {
    await world.claim(`probe-${attempt}`, "text");
    const probe = `/apis/k8s.cni.cncf.io/v1alpha1/namespaces/shop/ipamclaims/probe-${attempt}/status`;
    const { status } = await world.cluster.api.patch(probe, { status: { ips: [], ownerPod: "somebody" } });
    if (status.ownerPod === "somebody") break;
  }
  const vm = await world.vm("text", network);
  for (const node of [...NODES, "node-a"]) await runOnce(vm, node, network);
  await world.claim("text", "text");
  await world.given(await podOf("text", "node-a", network, "text"), network);
});
