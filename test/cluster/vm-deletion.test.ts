import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const GRACE_SECONDS = 1;

let world: World;

beforeAll(async () => {
  const controller = { sweepIntervalSeconds: 1, sweepGraceSeconds: GRACE_SECONDS };
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function nic(network: Network): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

function deleteVmObject(vm: Vm, propagationPolicy: string): Promise<unknown> {
  const path = pathOf(vm.namespace, "virtualmachines", vm.name, "kubevirt.io/v1");
  return world.cluster.api.delete(path, { propagationPolicy });
}

async function untilTerminating(read: () => Promise<KubeObject | null>, what: string): Promise<void> {
  await world.until(async () => (await read())?.metadata.deletionTimestamp !== undefined, `${what} to terminate`);
}

/** Longer than the grace and some sweeps. */
async function expectStaysBound(network: Network, ips: readonly string[]): Promise<void> {
  await world.advance((GRACE_SECONDS + 2) * 1_000);
  for (const ip of ips) expect((await world.allocation(network, ip)).status.state).toBe("Bound");
}

async function untilCooling(network: Network, ips: readonly string[]): Promise<void> {
  for (const ip of ips) await world.becomes(network, ip, "Cooling");
}

test.each(["Background", "Foreground"] as const)(
  "a VM that is deleted while its launcher pod runs keeps its addresses until the pod has ended: %s",
  async (propagation) => {
    const name = propagation.toLowerCase();
    const network = await world.network(name, { subnets: "10.0.0.0/29,fd00::/64" });
    const vm = await world.vm(name, network);
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    const ips = await world.given(pod, network, nic(network));
    await deleteVmObject(vm, propagation);
    await world.kubevirt.stopVm(vm, { remove: false });
    await untilTerminating(() => world.readClaim(claimName(vm, name)), "the claim");
    await untilTerminating(async () => (await world.kubevirt.launchers(vm))[0] ?? null, "the pod");

    // The pod is older than the deletion, so even a new sandbox of it is served.
    const sandbox = { ...nic(network), containerId: `second-${name}` };
    expect(await world.given(pod, network, sandbox)).toEqual(ips);
    await world.del(pod, network, nic(network));
    // Somebody's hand: the extension waits for the pod.
    await world.kubevirt.releaseClaims(vm);
    await world.until(async () => (await world.readClaim(claimName(vm, name))) === null, "the claim to go");
    await expectStaysBound(network, ips);

    const others: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      others.push(...(await world.given(await world.pod(`${name}-${index}`, "node-b", network), network)));
    }
    for (const ip of ips) expect(others).not.toContain(ip);
    const waiting = await world.pod(`${name}-waiting`, "node-b", network);
    await world.refused(waiting, network, 11);

    await world.del(pod, network, sandbox);
    await world.kubevirt.removePod(pod);
    await untilCooling(network, ips);
    await world.until(async () => (await world.add(waiting, network)).code === 0, "the waiting pod to be served");
  },
);

test("a claim that is deleted while its pod runs keeps its address until the pod has ended", async () => {
  const network = await world.network("under");
  await world.claim("under", "under");
  const pod = await world.pod("user", "node-a", network, { "ipam-claim-reference": "under" });
  const ips = await world.given(pod, network);
  await world.deleteClaim("under");
  expect(await world.readClaim("under")).toBeNull();
  await expectStaysBound(network, ips);
  // An exact repeat needs no claim.
  expect(await world.given(pod, network)).toEqual(ips);
  const taker = await world.pod("taker", "node-b", network, { ips: [ips[0]] });
  expect(await world.refused(taker, network, 120)).toContain("claim shop/under");
  await world.del(pod, network);
  await world.kubevirt.removePod(pod);
  await untilCooling(network, ips);
});

test("a recreated VM gets no address until the old VM's claim is gone, and then a new one", async () => {
  const network = await world.network("phoenix", { subnets: "10.0.0.0/24,fd00::/64" });
  const old = await world.vm("phoenix", network);
  const { pod: oldPod } = await world.kubevirt.startVm(old, "node-a");
  const oldIps = await world.given(oldPod, network, nic(network));
  await world.kubevirt.deleteVm(old, "Background", { release: false });
  const vm = await world.vm("phoenix", network);
  expect(vm.uid).not.toBe(old.uid);
  const { vmi, pod } = await world.kubevirt.startVm(vm, "node-b");
  for (let attempt = 0; attempt < 3; attempt += 1) {
    expect(await world.refused(pod, network, 11, nic(network))).toContain(
      "IPAMClaim shop/phoenix.phoenix belongs to VirtualMachine phoenix",
    );
  }
  expect(await world.untilEvent(pod, "ClaimOtherOwner")).toContain("shop/phoenix.phoenix");
  expect((await world.readClaim("phoenix.phoenix")).status.ips).toEqual(oldIps);

  await world.del(oldPod, network, nic(network));
  await world.kubevirt.releaseClaims(old);
  await world.until(async () => (await world.readClaim("phoenix.phoenix")) === null, "the old claim to go");
  // The extension makes the new one while the pod waits, in a later second: creation times have no finer ones.
  await world.advance(1_100);
  const adding = world.given(pod, network, nic(network));
  await world.kubevirt.createClaims(vm);
  const ips = await adding;
  for (const ip of ips) expect(oldIps).not.toContain(ip);
  await untilCooling(network, oldIps);
  for (const ip of ips) await world.untilUsers(network, ip, pod);

  // It migrates and restarts like any other.
  const target = await world.kubevirt.createLauncher(vm, vmi, "node-a");
  expect(await world.given(target, network, nic(network))).toEqual(ips);
  await world.del(pod, network, nic(network));
});

test("the address of a stopped VM is released only when the VM is deleted", async () => {
  const network = await world.network("still", { subnets: "10.0.0.0/29" });
  const vm = await world.vm("still", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, nic(network));
  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, nic(network)) });
  await expectStaysBound(network, ips);
  await world.kubevirt.deleteVm(vm);
  await untilCooling(network, ips);
});
