import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, interfaceOf, type Vm } from "../harness/kubevirt.ts";
import { Scenario } from "./scenario.ts";
import type { TestNetwork } from "./scenario-parts.ts";

const GRACE_SECONDS = 1;

let scene: Scenario;

beforeAll(async () => {
  const controller = { sweepIntervalSeconds: 1, sweepGraceSeconds: GRACE_SECONDS };
  scene = await Scenario.start({ nodes: ["node-a", "node-b"], controller });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

function nic(network: TestNetwork): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

function deleteVmObject(vm: Vm, propagationPolicy: string): Promise<unknown> {
  const path = pathOf(vm.namespace, "virtualmachines", vm.name, "kubevirt.io/v1");
  return scene.cluster.api.delete(path, { propagationPolicy });
}

async function untilTerminating(read: () => Promise<KubeObject | null>, what: string): Promise<void> {
  await until(async () => (await read())?.metadata.deletionTimestamp !== undefined, `${what} to terminate`);
}

/** Longer than the grace and some sweeps. */
async function expectStaysBound(network: TestNetwork, ips: readonly string[]): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, (GRACE_SECONDS + 2) * 1_000));
  for (const ip of ips) expect((await scene.allocation(network, ip)).status.state).toBe("Bound");
}

async function untilCooling(network: TestNetwork, ips: readonly string[]): Promise<void> {
  for (const ip of ips) await scene.untilState(network, ip, "Cooling");
}

test.each(["Background", "Foreground"] as const)(
  "a VM deleted with its launcher pod still running: %s",
  async (propagation) => {
    const name = propagation.toLowerCase();
    const network = await scene.network(name, { subnets: "10.0.0.0/29,fd00::/64" });
    const vm = await scene.vm(name, network);
    const { pod } = await scene.kubevirt.startVm(vm, "node-a");
    const ips = await scene.given(pod, network, nic(network));
    await deleteVmObject(vm, propagation);
    await untilTerminating(() => scene.readClaim(claimName(vm, name)), "the claim");
    await untilTerminating(async () => (await scene.kubevirt.launchers(vm))[0] ?? null, "the pod");

    // The pod is older than the deletion, so even a new sandbox of it is served.
    const sandbox = { ...nic(network), containerId: `second-${name}` };
    expect(await scene.given(pod, network, sandbox)).toEqual(ips);
    await scene.del(pod, network, nic(network));
    await scene.kubevirt.stopVm(vm, { remove: false });
    await scene.kubevirt.releaseClaims(vm);
    await until(async () => (await scene.readClaim(claimName(vm, name))) === null, "the claim to go");
    await expectStaysBound(network, ips);

    const others: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      others.push(...(await scene.given(await scene.pod(`${name}-${index}`, "node-b", network), network)));
    }
    for (const ip of ips) expect(others).not.toContain(ip);
    const waiting = await scene.pod(`${name}-waiting`, "node-b", network);
    await scene.refused(waiting, network, 11);

    await scene.del(pod, network, sandbox);
    await scene.kubevirt.removePod(pod);
    await untilCooling(network, ips);
    await until(async () => (await scene.add(waiting, network)).code === 0, "the waiting pod to be served");
  },
);

test("a claim deleted under a running pod holds its address until that pod has ended", async () => {
  const network = await scene.network("under");
  await scene.claim("under", "under");
  const pod = await scene.pod("user", "node-a", network, { "ipam-claim-reference": "under" });
  const ips = await scene.given(pod, network);
  await scene.deleteClaim("under");
  expect(await scene.readClaim("under")).toBeNull();
  await expectStaysBound(network, ips);
  // An exact repeat needs no claim.
  expect(await scene.given(pod, network)).toEqual(ips);
  const taker = await scene.pod("taker", "node-b", network, { ips: [ips[0]] });
  expect(await scene.refused(taker, network, 120)).toContain("claim shop/under");
  await scene.del(pod, network);
  await scene.kubevirt.removePod(pod);
  await untilCooling(network, ips);
});

test("a VM deleted and created again under its name: nothing until the old claim is gone, then a fresh address", async () => {
  const network = await scene.network("phoenix", { subnets: "10.0.0.0/24,fd00::/64" });
  const old = await scene.vm("phoenix", network);
  const { pod: oldPod } = await scene.kubevirt.startVm(old, "node-a");
  const oldIps = await scene.given(oldPod, network, nic(network));
  await scene.kubevirt.deleteVm(old, "Background", { release: false });
  const vm = await scene.vm("phoenix", network);
  expect(vm.uid).not.toBe(old.uid);
  const { vmi, pod } = await scene.kubevirt.startVm(vm, "node-b");
  for (let attempt = 0; attempt < 3; attempt += 1) {
    expect(await scene.refused(pod, network, 11, nic(network))).toContain(
      "IPAMClaim shop/phoenix.phoenix belongs to VirtualMachine phoenix",
    );
  }
  expect(await scene.untilEvent(pod, "ClaimOtherOwner")).toContain("shop/phoenix.phoenix");
  expect((await scene.readClaim("phoenix.phoenix")).status.ips).toEqual(oldIps);

  await scene.del(oldPod, network, nic(network));
  await scene.kubevirt.releaseClaims(old);
  await until(async () => (await scene.readClaim("phoenix.phoenix")) === null, "the old claim to go");
  // The extension makes the new one while the pod waits, in a later second: creation times have no finer ones.
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  const adding = scene.given(pod, network, nic(network));
  await scene.kubevirt.createClaims(vm);
  const ips = await adding;
  for (const ip of ips) expect(oldIps).not.toContain(ip);
  await untilCooling(network, oldIps);
  for (const ip of ips) await scene.untilUsers(network, ip, pod);

  // It migrates and restarts like any other.
  const target = await scene.kubevirt.createLauncher(vm, vmi, "node-a");
  expect(await scene.given(target, network, nic(network))).toEqual(ips);
  await scene.del(pod, network, nic(network));
});

test("of a stopped VM nothing is freed; with the VM deleted everything is, and nobody gets an address twice", async () => {
  const network = await scene.network("still", { subnets: "10.0.0.0/29" });
  const vm = await scene.vm("still", network);
  const { pod } = await scene.kubevirt.startVm(vm, "node-a");
  const ips = await scene.given(pod, network, nic(network));
  await scene.kubevirt.stopVm(vm);
  await scene.del(pod, network, nic(network));
  await expectStaysBound(network, ips);
  await scene.kubevirt.deleteVm(vm);
  await untilCooling(network, ips);
});
