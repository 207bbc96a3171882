import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { claimName } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

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

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: NODES });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

test("the first use of a claim costs one status write, and a repeat none", async () => {
  const network = await world.network("quiet");
  await world.claim("quiet", "quiet");
  const pod = await podOf("quiet", "node-a", network, "quiet");
  const before = await statusWrites();
  const ips = await world.given(pod, network);
  expect(await statusWrites()).toBe(before + 1);
  const version = await versionOf("quiet");
  for (let sandbox = 0; sandbox < 5; sandbox += 1) {
    expect(await world.given(pod, network, { containerId: `quiet-${sandbox}` })).toEqual(ips);
  }
  await world.del(pod, network, { containerId: "quiet-4" });
  expect(await world.given(pod, network)).toEqual(ips);
  await world.settled();
  expect(await statusWrites()).toBe(before + 1);
  expect(await versionOf("quiet")).toBe(version);
});

test("a migration changes only ownerPod, in one write", async () => {
  const network = await world.network("moving");
  const vm = await world.vm("moving", network);
  const options = { ifname: interfaceOf("moving") };
  let { pod } = await world.kubevirt.startVm(vm, "node-a");
  await world.given(pod, network, options);
  const { status } = await world.readClaim(claimName(vm, "moving"));
  const before = await statusWrites();
  for (const node of ["node-b", "node-a", "node-b"]) {
    const target = await world.kubevirt.migrate(vm, node);
    await world.given(target, network, options);
    await world.untilOwnerPod(claimName(vm, "moving"), target);
    await world.kubevirt.finishPod(pod);
    await world.del(pod, network, options);
    pod = target;
  }
  expect(await statusWrites()).toBe(before + 3);
  const after = (await world.readClaim(claimName(vm, "moving"))).status;
  expect(after).toEqual({ ...status, ownerPod: { name: pod.metadata.name } });
});

test("a repeated refusal is written to the status once", async () => {
  const network = await world.network("nagging");
  await world.claim("nagged", "nagging");
  await world.given(await podOf("holds", "node-a", network, "nagged"), network);
  const before = await statusWrites();
  const late = await podOf("wants", "node-b", network, "nagged");
  for (let attempt = 0; attempt < 4; attempt += 1) await world.refused(late, network, 124);
  await world.untilReason("nagged", "ClaimInUse");
  const version = await versionOf("nagged");
  for (let attempt = 0; attempt < 4; attempt += 1) await world.refused(late, network, 124);
  expect(await versionOf("nagged")).toBe(version);
  expect((await statusWrites()) - before).toBeLessThanOrEqual(4);
});

test("conditions of other types are kept", async () => {
  const network = await world.network("company");
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const other = {
    type: "Backed",
    status: "Unknown",
    reason: "Mine",
    message: "not yours",
    lastTransitionTime,
  };
  await world.claim("company", "company", { conditions: [other] });
  const pod = await podOf("company", "node-a", network, "company");
  const ips = await world.given(pod, network);
  expect((await world.readClaim("company")).status).toMatchObject({
    ips,
    conditions: [other, { type: "IPsAllocated", status: "True" }],
  });
  await world.refused(await podOf("intruder", "node-b", network, "company"), network, 124);
  await world.untilReason("company", "ClaimInUse");
  expect((await world.readClaim("company")).status).toMatchObject({
    ips,
    conditions: [other, { type: "IPsAllocated", status: "True", reason: "ClaimInUse" }],
  });
});
