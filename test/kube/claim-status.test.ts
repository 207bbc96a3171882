import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { claimName, interfaceOf } from "../harness/kubevirt.ts";
import { Scenario } from "./scenario.ts";
import type { TestNetwork } from "./scenario-parts.ts";

const NODES = ["node-a", "node-b"];

let scene: Scenario;

async function statusWrites(): Promise<number> {
  return (await scene.cluster.writes("ipamclaims/status")).total;
}

async function versionOf(claim: string): Promise<string> {
  return (await scene.readClaim(claim)).metadata.resourceVersion;
}

function podOf(name: string, node: string, network: TestNetwork, claim: string): Promise<KubeObject> {
  return scene.pod(name, node, network, { "ipam-claim-reference": claim });
}

beforeAll(async () => {
  scene = await Scenario.start({ nodes: NODES });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

test("one write at the first use, none when nothing changes", async () => {
  const network = await scene.network("quiet");
  await scene.claim("quiet", "quiet");
  const pod = await podOf("quiet", "node-a", network, "quiet");
  const before = await statusWrites();
  const ips = await scene.given(pod, network);
  expect(await statusWrites()).toBe(before + 1);
  const version = await versionOf("quiet");
  for (let sandbox = 0; sandbox < 5; sandbox += 1) {
    expect(await scene.given(pod, network, { containerId: `quiet-${sandbox}` })).toEqual(ips);
  }
  await scene.del(pod, network, { containerId: "quiet-4" });
  expect(await scene.given(pod, network)).toEqual(ips);
  await scene.expectClean();
  expect(await statusWrites()).toBe(before + 1);
  expect(await versionOf("quiet")).toBe(version);
});

test("ownerPod follows every migration with one write, and nothing else changes", async () => {
  const network = await scene.network("moving");
  const vm = await scene.vm("moving", network);
  const options = { ifname: interfaceOf("moving") };
  let { pod } = await scene.kubevirt.startVm(vm, "node-a");
  await scene.given(pod, network, options);
  const { status } = await scene.readClaim(claimName(vm, "moving"));
  const before = await statusWrites();
  for (const node of ["node-b", "node-a", "node-b"]) {
    const target = await scene.kubevirt.migrate(vm, node);
    await scene.given(target, network, options);
    await scene.untilOwnerPod(claimName(vm, "moving"), target);
    await scene.del(pod, network, options);
    await scene.kubevirt.removePod(pod);
    pod = target;
  }
  expect(await statusWrites()).toBe(before + 3);
  const after = (await scene.readClaim(claimName(vm, "moving"))).status;
  expect(after).toEqual({ ...status, ownerPod: { name: pod.metadata.name } });
});

test("the same refusal again and again is written once", async () => {
  const network = await scene.network("nagging");
  await scene.claim("nagged", "nagging");
  await scene.given(await podOf("holds", "node-a", network, "nagged"), network);
  const before = await statusWrites();
  const late = await podOf("wants", "node-b", network, "nagged");
  for (let attempt = 0; attempt < 4; attempt += 1) await scene.refused(late, network, 124);
  await scene.untilReason("nagged", "ClaimInUse");
  const version = await versionOf("nagged");
  for (let attempt = 0; attempt < 4; attempt += 1) await scene.refused(late, network, 124);
  expect(await versionOf("nagged")).toBe(version);
  expect((await statusWrites()) - before).toBeLessThanOrEqual(4);
});

test("conditions of other types survive, whoever wrote them", async () => {
  const network = await scene.network("company");
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const other = {
    type: "Backed",
    status: "Unknown",
    reason: "Mine",
    message: "not yours",
    lastTransitionTime,
  };
  await scene.claim("company", "company", { conditions: [other] });
  const pod = await podOf("company", "node-a", network, "company");
  const ips = await scene.given(pod, network);
  expect((await scene.readClaim("company")).status).toMatchObject({
    ips,
    conditions: [other, { type: "IPsAllocated", status: "True" }],
  });
  await scene.refused(await podOf("intruder", "node-b", network, "company"), network, 124);
  await scene.untilReason("company", "ClaimInUse");
  expect((await scene.readClaim("company")).status).toMatchObject({
    ips,
    conditions: [other, { type: "IPsAllocated", status: "True", reason: "ClaimInUse" }],
  });
});
