/** A VM whose network is edited while it runs (KubeVirt 1.9, VEP 140), or while it is stopped: its claim follows it. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf, NETWORKS } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** The network's name in each VM. */
const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };

let world: World;
let blue: Network;
let red: Network;

beforeAll(async () => {
  const controller = { coolingKeepSeconds: 3_600 };
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], admission: true, controller });
  blue = await world.network("blue", { subnets: "10.1.0.0/24,fd01::/64" });
  // Networks may overlap: what is listed belongs to one of them.
  red = await world.network("red", { subnets: "10.1.0.0/24" });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const on = (network: Network) => [{ logical: LOGICAL, nad: network.name, network: network.name }];
const claimOf = (vm: Vm): Promise<KubeObject> => world.readClaim(claimName(vm, LOGICAL));
const checked = async () =>
  (await world.cli("check", "--kubeconfig", world.cluster.kubeconfig("admin"), "--grace", "0")).stdout;

interface Moving {
  readonly vm: Vm;
  readonly source: KubeObject;
  readonly ips: readonly string[];
}

/** A VM that runs on node-a and has addresses of a network. */
async function running(name: string, network = blue): Promise<Moving> {
  const vm = await world.kubevirt.createVm(NAMESPACE, name, on(network));
  const { pod: source } = await world.kubevirt.startVm(vm, "node-a");
  return { vm, source, ips: await world.given(source, network, NIC) };
}

/** The target of the migration to another network, with what it was answered. */
async function moved({ vm }: Moving, network: Network, node = "node-b") {
  const changed = await world.kubevirt.changeNetworks(vm, on(network));
  const target = await world.kubevirt.migrate(changed, node);
  return { vm: changed, target, ips: await world.given(target, network, NIC) };
}

/** The source of a migration. Its pod stays for as long as the VMI. */
async function end(pod: KubeObject, network: Network): Promise<void> {
  await world.kubevirt.finishPod(pod);
  await world.del(pod, network, NIC);
}

/** The target of one that failed. */
async function fail(pod: KubeObject, network: Network): Promise<void> {
  await world.kubevirt.failMigration(pod);
  await world.del(pod, network, NIC);
}

/** Networks may overlap, and a list has no networks: what is on both is listed once. */
const together = (...lists: readonly (readonly string[])[]) => [...new Set(lists.flat())];

/** Sooner or later: the controller brings list and network in line with what the claim has. */
async function lists(vm: Vm, network: Network, ips: readonly string[]): Promise<void> {
  const expected = { network: network.name, ips };
  let said: unknown;
  const isSaid = async () => {
    const { spec, status } = await claimOf(vm);
    said = { network: spec.network, ips: status?.ips };
    return JSON.stringify(said) === JSON.stringify(expected);
  };
  await world.until(isSaid, "the claim to say what it has").catch(() => expect(said).toEqual(expected));
}

test("the claim follows, what it had is kept until the source has ended, and cools down then", async () => {
  const before = await running("follows");
  const { vm, target, ips } = await moved(before, red);
  // The node appends; the controller says where the claim is, and that the source has the rest.
  await lists(vm, red, together(ips, before.ips));
  await world.untilOwnerPod(claimName(vm, LOGICAL), target);
  expect(await world.untilEvent(await claimOf(vm), "NetworkChanged")).toBe(
    `its VM goes from network blue to red, where it has ${ips}; ${before.ips.join(", ")} of network blue is kept while it is in use`,
  );
  for (const ip of before.ips) await world.stays("blue", ip);
  expect(await checked()).toContain("ok: ");
  for (const ip of before.ips) await world.untilUsers(blue, ip, before.source);
  await end(before.source, blue);
  for (const ip of before.ips) await world.becomes(blue, ip, "Cooling");
  await world.untilUsers(red, ips[0] as string, target);
  expect(await checked()).toContain("ok: ");
  await lists(vm, red, ips);
  // From now on it is a claim as any other.
  const next = await world.kubevirt.migrate(vm, "node-a");
  expect(await world.given(next, red, NIC)).toEqual(ips);
  await end(target, red);
});

test("a definition without a name: the extension's claim has no network, and gets the one of its VM's interface", async () => {
  const network = await world.network("nameless", { subnets: "10.5.0.0/24" });
  const { name: _, ...config } = JSON.parse(network.config);
  await world.editNad("nameless", JSON.stringify(config));
  const vm = await world.kubevirt.createVm(NAMESPACE, "nameless", [{ logical: LOGICAL, nad: "nameless", network: "" }]);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, NIC);
  await lists(vm, network, ips);
  await world.untilOwnerPod(claimName(vm, LOGICAL), pod);
  const target = await world.kubevirt.migrate(vm, "node-b");
  expect(await world.given(target, network, NIC)).toEqual(ips);
  await end(pod, network);
  await world.untilUsers(network, ips[0] as string, target);
});

test("back again before the end: the former address, which was kept", async () => {
  const before = await running("returns");
  const { target, ips } = await moved(before, red);
  const back = await moved(before, blue);
  expect(back.ips).toEqual(before.ips);
  await lists(before.vm, blue, before.ips);
  // The launcher that was given up, whose runtime has not heard of it.
  const late = { ...NIC, containerId: "late" };
  expect(await world.refused(target, red, 125, late)).toContain("is for network blue");
  await lists(before.vm, blue, before.ips);
  await fail(target, red);
  await world.becomes(red, ips[0] as string, "Cooling");
  await end(before.source, blue);
  for (const ip of before.ips) await world.untilUsers(blue, ip, back.target);
});

test("back again after the end: the former address, while it cools down", async () => {
  const before = await running("regrets");
  const { target } = await moved(before, red);
  await end(before.source, blue);
  for (const ip of before.ips) await world.becomes(blue, ip, "Cooling");
  const back = await moved(before, blue, "node-a");
  expect(back.ips).toEqual(before.ips);
  await lists(before.vm, blue, before.ips);
  await end(target, red);
});

test("two edits in a row: only the last network and the one in use keep something", async () => {
  const green = await world.network("green", { subnets: "10.3.0.0/24" });
  const before = await running("hurries");
  const first = await moved(before, red);
  await fail(first.target, red);
  const last = await moved(before, green);
  await lists(before.vm, green, together(last.ips, before.ips));
  await world.becomes(red, first.ips[0] as string, "Cooling");
  for (const ip of before.ips) await world.stays("blue", ip);
  await end(before.source, blue);
  for (const ip of before.ips) await world.becomes(blue, ip, "Cooling");
});

test("a migration that fails leaves the source what it has; the next start follows what the VM says", async () => {
  const before = await running("fails");
  const { vm, target, ips } = await moved(before, red);
  await fail(target, red);
  for (const ip of before.ips) await world.stays("blue", ip);
  await world.untilOwnerPod(claimName(vm, LOGICAL), before.source);
  await lists(vm, red, together(ips, before.ips));
  // The runtime asks once more for the source.
  expect(await world.given(before.source, blue, NIC)).toEqual(before.ips);
  await lists(vm, red, together(ips, before.ips));
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(before.source, blue, NIC);
  await world.kubevirt.removePod(before.source);
  const { pod } = await world.kubevirt.startVm({ ...vm, networks: on(blue) }, "node-b");
  expect(await world.given(pod, blue, NIC)).toEqual(before.ips);
  await lists(vm, blue, before.ips);
  await world.becomes(red, ips[0] as string, "Cooling");
});

test("a migration that fails and an edit that is taken back: no ADD comes, and the claim comes back to its VM", async () => {
  const before = await running("cancels");
  const { target, ips } = await moved(before, red);
  await fail(target, red);
  await lists(before.vm, red, together(ips, before.ips));
  const vm = await world.kubevirt.changeNetworks(before.vm, on(blue));
  const claim = claimName(vm, LOGICAL);
  await world.until(async () => (await claimOf(vm)).status.ips.join() === before.ips.join(), `${claim} to be back`);
  await lists(vm, blue, before.ips);
  await world.untilOwnerPod(claim, before.source);
  await world.becomes(red, ips[0] as string, "Cooling");
  // A stopped VM keeps what it has.
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(before.source, blue, NIC);
  await world.kubevirt.removePod(before.source);
  for (const ip of before.ips) await world.stays("blue", ip);
});

test("a VM that is edited while it is stopped starts on the new network", async () => {
  const before = await running("restarts");
  await world.kubevirt.stopVm(before.vm, { remove: false });
  await world.del(before.source, blue, NIC);
  await world.kubevirt.removePod(before.source);
  const vm = { ...before.vm, networks: on(red) };
  const { pod } = await world.kubevirt.startVm(vm, "node-b");
  await lists(vm, red, await world.given(pod, red, NIC));
  for (const ip of before.ips) await world.becomes(blue, ip, "Cooling");
});

test("a claim that was never used follows without a word about addresses", async () => {
  const vm = await world.kubevirt.createVm(NAMESPACE, "unused", on(blue));
  await world.kubevirt.startVm(vm, "node-a");
  await world.kubevirt.stopVm(vm);
  const changed = { ...vm, networks: on(red) };
  const { pod } = await world.kubevirt.startVm(changed, "node-a");
  await lists(changed, red, await world.given(pod, red, NIC));
});

test.each([
  ["another plugin's", { type: "other" }],
  ["one without persistent addresses", { type: "holdfast-ipam", subnets: "10.8.0.0/24" }],
])(
  "a VM goes to a network, %s: what it had is released once nobody uses it, and the claim says so",
  async (_, ipam) => {
    const nad = `left-${ipam.type}`;
    // Of its own: another claim could have had the address that this one begins to look at.
    const home = await world.network(`home-${ipam.type}`, { subnets: "10.9.0.0/24" });
    await world.kubevirt.createNad(
      NAMESPACE,
      nad,
      JSON.stringify({ cniVersion: "1.0.0", name: nad, type: "bridge", ipam }),
    );
    const before = await running(nad, home);
    const vm = await world.kubevirt.changeNetworks(before.vm, [{ logical: LOGICAL, nad, network: nad }]);
    // The extension names no claim where the flag is not set.
    const target = await world.kubevirt.migrate(vm, "node-b");
    const elements = JSON.parse(target.metadata.annotations[NETWORKS]);
    const networks = elements.map(({ "ipam-claim-reference": _claim, ...one }: KubeObject) => one);
    await world.cluster.api.patch(pathOf(NAMESPACE, "pods", target.metadata.name), {
      metadata: { annotations: { [NETWORKS]: JSON.stringify(networks) } },
    });
    for (const ip of before.ips) await world.stays(home.name, ip);
    await lists(vm, home, before.ips);
    await end(before.source, home);
    for (const ip of before.ips) await world.becomes(home, ip, "Cooling");
    await lists(vm, home, []);
    expect((await world.untilReason(claimName(vm, LOGICAL), "NetworkLeft")).message).toBe(
      `its VM runs on NetworkAttachmentDefinition shop/${nad}, where no claim can follow it; ${before.ips.join(", ")} of network ${home.name} is released`,
    );
    // It comes back: its own, while they cool down. Checked afterwards: what is looked at again would outlast the
    // cool-down.
    await world.kubevirt.failMigration(target);
    const back = await moved({ ...before, vm }, home);
    expect(back.ips).toEqual(before.ips);
    await lists(vm, home, before.ips);
    expect(await checked()).toContain("ok: ");
  },
);

test("a stopped VM, and one whose interface is unplugged, leave nothing", async () => {
  const before = await running("unplugs");
  await world.kubevirt.changeNetworks(before.vm, []);
  await end(before.source, blue);
  const { vm } = before;
  await world.kubevirt.migrate({ ...vm, networks: [] }, "node-b");
  for (const ip of before.ips) await world.stays("blue", ip);
  await lists(vm, blue, before.ips);
});

test("no claim follows to a network without persistent addresses, or without its VM", async () => {
  const plain = await world.network("plain", {}, { allowPersistentIPs: false });
  const before = await running("stays");
  const claim = `${NAMESPACE}/${claimName(before.vm, LOGICAL)}`;
  const text = (network: Network) =>
    `IPAMClaim ${claim} is for network blue, this interface is on network ${network.name}`;
  const changed = await world.kubevirt.changeNetworks(before.vm, on(plain));
  const target = await world.kubevirt.migrate(changed, "node-b");
  expect(await world.refused(target, plain, 125, NIC)).toContain(text(plain));
  // Another VM's launcher that names it.
  const other = await world.kubevirt.createVm(NAMESPACE, "thief", on(red));
  const { vmi } = await world.kubevirt.startVm(other, "node-b");
  const thief = await world.kubevirt.createLauncher({ ...before.vm, networks: on(red) }, vmi, "node-b");
  expect(await world.refused(thief, red, 125, NIC)).toContain(text(red));
  // A pod without VM.
  const pod = await world.pod("no-vm", "node-b", red, { "ipam-claim-reference": claim.split("/")[1] });
  expect(await world.refused(pod, red, 125)).toContain(text(red));
  await lists(before.vm, blue, before.ips);
  expect(await world.bound(plain)).toEqual([]);
});

test("a claim without VM follows nobody", async () => {
  const claim = await world.claim("alone", "blue");
  const pod = await world.pod("alone", "node-a", red, { "ipam-claim-reference": "alone" });
  expect(await world.refused(pod, red, 125)).toContain("IPAMClaim shop/alone is for network blue");
  expect((await world.readClaim("alone")).metadata.resourceVersion).not.toBe("");
  expect((await world.readClaim("alone")).spec).toEqual(claim.spec);
});

test("two interfaces of one pod do not take a claim from each other", async () => {
  const before = await running("greedy");
  const networks = [...JSON.parse(before.source.metadata.annotations[NETWORKS])];
  networks.push({ ...networks[0], name: "red", interface: "pod0" });
  await world.cluster.api.patch(pathOf(NAMESPACE, "pods", before.source.metadata.name), {
    metadata: { annotations: { [NETWORKS]: JSON.stringify(networks) } },
  });
  expect(await world.refused(before.source, red, 125, { ifname: "pod0" })).toContain("is for network blue");
  await lists(before.vm, blue, before.ips);
});
