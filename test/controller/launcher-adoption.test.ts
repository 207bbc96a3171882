import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { interfaceOf, KUBEVIRT, launcherParts, NETWORKS } from "../harness/world/kubevirt-objects.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { claimOwner } from "../harness/world/objects.ts";
import { World } from "../harness/world/world.ts";

const FILLED_MS_MAX = 10_000;
const dual = { subnets: "10.8.0.0/24,fd08::/64" };

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller: {} });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function nic(network: Network): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

async function listed(vm: Vm, logical: string): Promise<string[]> {
  return (await world.kubevirt.claim(vm, logical))?.status?.ips ?? [];
}

async function untilListed(vm: Vm, network: Network, ips: readonly string[]): Promise<void> {
  const startMs = world.time.clock.monotonicMs();
  await world.until(async () => (await listed(vm, network.name)).length > 0, "the claim to be filled");
  expect(world.time.clock.monotonicMs() - startMs).toBeLessThanOrEqual(FILLED_MS_MAX);
  expect(await listed(vm, network.name)).toEqual(ips);
}

async function untilGone(vm: Vm, network: Network): Promise<void> {
  await world.deleteClaim(claimName(vm, network.name));
  await world.kubevirt.releaseClaims(vm);
  await world.until(async () => (await world.kubevirt.claim(vm, network.name)) === null, "the claim to go");
}

/** A VM whose launcher names no claim at its ADD; its address belongs to the pod. */
async function runsWithout(name: string, network: Network, node = "node-a") {
  const vm = await world.vm(name, network);
  const running = await world.kubevirt.startVm(vm, node);
  await untilGone(vm, network);
  await select(running.pod, [{ name: network.name, interface: interfaceOf(network.name) }]);
  const ips = await world.given(running.pod, network, nic(network));
  expect((await world.allocation(network, ips[0] as string))?.spec.owner.kind).toBe("Pod");
  return { vm, ips, ...running };
}

async function select(pod: KubeObject, elements: readonly object[]): Promise<void> {
  const annotations = { [NETWORKS]: JSON.stringify(elements) };
  await world.cluster.api.patch(pathOf(NAMESPACE, "pods", pod.metadata.name), { metadata: { annotations } });
  // The daemon's copy of the pod.
  await world.advance(1_000);
}

/** The next start of a VM on another node, after the launcher's DEL. */
async function restarted(vm: Vm, pod: KubeObject, network: Network): Promise<string[]> {
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, nic(network));
  await world.kubevirt.removePod(pod);
  const again = await world.kubevirt.startVm(vm, "node-b");
  return world.given(again.pod, network, nic(network));
}

async function staysEmpty(vm: Vm, network: Network): Promise<void> {
  await world.advance(2 * FILLED_MS_MAX);
  expect(await listed(vm, network.name)).toEqual([]);
}

test("a claim that is made again while its VM runs has the VM's addresses, and the next start gets them", async () => {
  const network = await world.network("again", dual);
  const vm = await world.vm("again", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, nic(network));
  await untilGone(vm, network);
  await world.kubevirt.createClaims(vm);
  await untilListed(vm, network, ips);
  expect((await world.kubevirt.claim(vm, "again"))?.status.ownerPod).toEqual({ name: pod.metadata.name });
  await world.untilReason(claimName(vm, "again"), "SuccessfulAllocation");
  expect(await restarted(vm, pod, network)).toEqual(ips);
});

test("a claim of a definition without a name, made again while its VM runs, has the VM's network and addresses", async () => {
  const network = await world.network("nameless", dual);
  const { name: _, ...config } = JSON.parse(network.config);
  await world.editNad("nameless", JSON.stringify(config));
  const vm = await world.vm("nameless", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, nic(network));
  await untilGone(vm, network);
  await world.kubevirt.createClaims({ ...vm, networks: vm.networks.map((one) => ({ ...one, network: "" })) });
  await untilListed(vm, network, ips);
  expect((await world.kubevirt.claim(vm, "nameless"))?.spec.network).toBe("nameless");
  expect(await restarted(vm, pod, network)).toEqual(ips);
});

test("a claim that the launcher names only after its ADD has the launcher's addresses", async () => {
  const network = await world.network("late", dual);
  const { vm, pod, ips } = await runsWithout("late", network);
  const reference = { "ipam-claim-reference": claimName(vm, network.name) };
  await select(pod, [{ name: network.name, interface: interfaceOf(network.name), ...reference }]);
  await world.kubevirt.createClaims(vm);
  await untilListed(vm, network, ips);
  // A new sandbox of the pod uses the claim, and the DEL of the one before ends nothing of it.
  const second = { ...nic(network), containerId: "late-second" };
  expect(await world.given(pod, network, second)).toEqual(ips);
  await world.del(pod, network, nic(network));
  await world.untilUsers(network, ips[0] as string, pod);
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, second);
  await world.kubevirt.removePod(pod);
  await world.untilUsers(network, ips[0] as string);
  const { pod: next } = await world.kubevirt.startVm(vm, "node-b");
  expect(await world.given(next, network, nic(network))).toEqual(ips);
});

test("allowPersistentIPs that is set while a VM runs keeps the address that it has", async () => {
  const network = await world.network("flagged", {}, { allowPersistentIPs: false });
  const vm = await world.vm("flagged", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, nic(network));
  await staysEmpty(vm, network);
  const config = configOf("flagged");
  await world.editNad("flagged", config);
  await untilListed(vm, network, ips);
  expect(await restarted(vm, pod, { ...network, config })).toEqual(ips);
});

test("each interface's claim gets the address of that interface, plugged in at any time", async () => {
  const network = await world.network("plug");
  const nics = ["plug", "more"].map((logical) => ({ logical, nad: "plug", network: "plug" }));
  const vm = await world.kubevirt.createVm(NAMESPACE, "plug", nics);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  for (const { logical } of nics) {
    await world.deleteClaim(claimName(vm, logical));
    await world.kubevirt.releaseClaims(vm);
  }
  await select(
    pod,
    nics.map(({ logical }) => ({ name: "plug", interface: interfaceOf(logical) })),
  );
  const given = [];
  for (const { logical } of nics) given.push(await world.given(pod, network, { ifname: interfaceOf(logical) }));
  await world.kubevirt.createClaims(vm);
  await untilListed(vm, network, given[0] as string[]);
  await world.until(async () => (await listed(vm, "more")).length > 0, "the other claim to be filled");
  expect(await listed(vm, "more")).toEqual(given[1]);
});

test("the DEL of a launcher whose address became its claim's leaves the address to the claim", async () => {
  const network = await world.network("stopped");
  const { vm, pod, ips } = await runsWithout("stopped", network);
  await world.kubevirt.createClaims(vm);
  await untilListed(vm, network, ips);
  await world.node("node-a").restart();
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, nic(network));
  await world.kubevirt.removePod(pod);
  await world.untilUsers(network, ips[0] as string);
  await world.stays("stopped", ips[0] as string);
  const filler = await world.pod("stopped-other", "node-b", network, { ips });
  expect(await world.refused(filler, network, 120)).toContain("claim shop/stopped.stopped");
});

test("of a VM that migrates the claim gets the address of the older launcher", async () => {
  const network = await world.network("moving");
  const { vm, pod: source, ips } = await runsWithout("moving", network);
  await world.advance(2_000);
  const target = await world.kubevirt.migrate(vm, "node-b");
  await select(target, [{ name: network.name, interface: interfaceOf(network.name) }]);
  const others = await world.given(target, network, nic(network));
  expect(others).not.toEqual(ips);
  await world.kubevirt.createClaims(vm);
  await untilListed(vm, network, ips);
  for (const pod of [source, target]) await world.del(pod, network, nic(network));
  for (const pod of [source, target]) await world.kubevirt.removePod(pod);
});

test("a claim is never filled from a pod that is not its VM's launcher", async () => {
  const network = await world.network("strict");
  const { vm, vmi, pod } = await runsWithout("strict", network, "node-b");
  const path = pathOf(NAMESPACE, "virtualmachineinstances", "strict", KUBEVIRT);
  // The VMI knows its launchers, and only pods that name it run here.
  const activePods = { [pod.metadata.uid]: null, "some-uid": "node-b" };
  await world.cluster.api.patch(path, { status: { activePods } });
  await world.kubevirt.createClaims(vm);
  await staysEmpty(vm, network);

  const plain = await world.kubevirt.createPod(NAMESPACE, "strict-plain", {
    node: "node-a",
    labels: launcherParts(vmi, {}).labels ?? {},
    networks: [{ name: network.name, interface: interfaceOf(network.name) }],
  });
  await world.given(plain, network, nic(network));
  await staysEmpty(vm, network);

  // Another VM whose name begins with this one's.
  const other = await runsWithout("strict.strict", network);
  await world.claim("strict.strict.strict", network.name);
  await world.advance(2 * FILLED_MS_MAX);
  expect((await world.readClaim("strict.strict.strict"))?.status?.ips ?? []).toEqual([]);
  expect((await world.allocation(network, other.ips[0] as string))?.spec.owner.kind).toBe("Pod");
});

test("what somebody fills a claim with meanwhile gives way to what its VM runs with", async () => {
  const own = await World.start({ api: "memory", nodes: ["node-a"] });
  const before = world;
  world = own;
  try {
    const network = await own.network("raced", dual);
    const { vm, ips } = await runsWithout("raced", network);
    const isTaking = ({ method, path }: { method: string; path: string }) =>
      method === "PUT" && path.includes("/ipallocations/");
    await own.startController({}, { fate: (one) => (isTaking(one) ? { requestMs: 400 } : undefined) });
    await own.kubevirt.createClaims(vm);
    const claim = await own.kubevirt.claim(vm, "raced");
    const ownerOf = async (ip: string) => (await own.allocation(network, ip))?.spec.owner.uid;
    await own.until(async () => (await ownerOf(ips[0] as string)) === claim.metadata.uid, "the claim to own the first");
    // Another address of each subnet: one as by a controller that led before, both listed.
    await own.allocate(network.name, "10.8.0.200/24", claimOwner(claim));
    await own.publish("raced.raced", { ips: ["10.8.0.200/24", "fd08::200/64"] });
    await own.untilLists("raced.raced", ips);
    for (const ip of ips) expect(await ownerOf(ip)).toBe(claim.metadata.uid);
    await own.becomes(network, "10.8.0.200/24", "Cooling");
    expect(await own.state(network, "fd08::200/64")).toBe("none");
    await own.settled();
  } finally {
    world = before;
    await own.stop();
  }
});

test("the address of a VM that migrated away stays with a claim that no longer belongs to the VM", async () => {
  const network = await world.network("away");
  const vm = await world.vm("away", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const [ip] = await world.given(pod, network, nic(network));
  const path = pathOf(NAMESPACE, "ipamclaims", claimName(vm, "away"), "k8s.cni.cncf.io/v1alpha1");
  await world.cluster.api.patch(path, { metadata: { ownerReferences: null } });
  await world.del(pod, network, nic(network));
  await world.kubevirt.stopVm(vm);
  await world.cluster.api.delete(pathOf(NAMESPACE, "virtualmachines", "away", KUBEVIRT));
  await world.kubevirt.releaseClaims(vm);
  await world.stays("away", ip as string);
  const other = await world.pod("away-other", "node-b", network, { ips: [ip] });
  expect(await world.refused(other, network, 120)).toContain("claim shop/away.away");
  await world.deleteClaim(claimName(vm, "away"));
  await world.becomes(network, ip as string, "Cooling");
});

test.each([1, 2, 3].flatMap((write) => [true, false].map((delivered) => ({ write, delivered }))))(
  "a controller that stops at write $write of an adoption, delivered: $delivered, leaves what the next one completes",
  async ({ write, delivered }) => {
    const own = await World.start({ api: "memory", nodes: ["node-a"] });
    try {
      const network = await own.network("cut", dual);
      const vm = await own.vm("cut", network);
      const { pod } = await own.kubevirt.startVm(vm, "node-a");
      const ips = await own.given(pod, network, nic(network));
      const before = world;
      world = own;
      await untilGone(vm, network).finally(() => {
        world = before;
      });
      await own.kubevirt.createClaims(vm);
      const way = new CutLink({ write, delivered, of: /ipallocations|ipamclaims/ });
      await own.startController({}, way);
      await own.until(() => way.isCut, "the controller to lose the API server");
      await own.startController();
      await own.until(async () => ((await own.readClaim("cut.cut"))?.status?.ips ?? []).length > 0, "the claim");
      expect((await own.readClaim("cut.cut"))?.status.ips).toEqual(ips);
      await own.settled();
    } finally {
      await own.stop();
    }
  },
);
