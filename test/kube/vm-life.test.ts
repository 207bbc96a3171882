import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { claimName } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: ["node-a", "node-b", "node-c"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const dual = { subnets: "10.0.0.0/24,fd00::/64" };

function nic(network: Network): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

test("a stopped VM keeps its addresses while others fill the network", async () => {
  const network = await world.network("keep", { subnets: "10.0.0.0/29,fd00::/125" });
  const vm = await world.vm("sleeper", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const mine = await world.given(pod, network, nic(network));
  expect(mine).toHaveLength(2);
  expect((await world.kubevirt.claim(vm, "keep")).status.ips).toEqual(mine);
  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, nic(network)) });
  for (const ip of mine) await world.untilUsers(network, ip);

  const others: string[] = [];
  for (let index = 0; index < 5; index += 1) {
    const other = await world.pod(`filler-${index}`, `node-${"abc"[index % 3]}`, network);
    others.push(...(await world.given(other, network)));
  }
  expect(new Set([...others, ...mine]).size).toBe(12);
  for (const node of ["node-a", "node-b", "node-c"]) {
    const late = await world.pod(`late-${node}`, node, network);
    expect(await world.refused(late, network, 11)).toContain("no free address");
  }

  const again = await world.kubevirt.startVm(vm, "node-c");
  expect(await world.given(again.pod, network, nic(network))).toEqual(mine);
  await world.untilOwnerPod(claimName(vm, network.name), again.pod);
});

test("both pods of a migration hold the addresses; the source ends first", async () => {
  const network = await world.network("move", dual);
  const vm = await world.vm("mover", network);
  const { pod: source } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(source, network, nic(network));
  const target = await world.kubevirt.migrate(vm, "node-b", "Pending");
  expect(await world.given(target, network, nic(network))).toEqual(ips);
  for (const ip of ips) await world.untilUsers(network, ip, source, target);
  await world.kubevirt.finishPod(source);
  await world.del(source, network, nic(network));
  for (const ip of ips) await world.untilUsers(network, ip, target);
  expect((await world.allocation(network, ips[0] as string)).status.node).toBe("node-b");

  const next = await world.kubevirt.migrate(vm, "node-c");
  expect(await world.given(next, network, nic(network))).toEqual(ips);
  await world.kubevirt.finishPod(target);
  await world.del(target, network, nic(network));
  for (const ip of ips) await world.untilUsers(network, ip, next);
  await world.untilOwnerPod(claimName(vm, network.name), next);

  const other = await world.vm("newcomer", network);
  const { pod } = await world.kubevirt.startVm(other, "node-a");
  const fresh = await world.given(pod, network, nic(network));
  expect(fresh).toHaveLength(2);
  for (const ip of fresh) expect(ips).not.toContain(ip);
});

test("a migration whose target ends first leaves the addresses to the source", async () => {
  const network = await world.network("stay", dual);
  const vm = await world.vm("stayer", network);
  const { pod: source } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(source, network, nic(network));
  const target = await world.kubevirt.migrate(vm, "node-b");
  expect(await world.given(target, network, nic(network))).toEqual(ips);
  await world.kubevirt.failMigration(target);
  await world.del(target, network, nic(network));
  for (const ip of ips) await world.untilUsers(network, ip, source);
  const next = await world.kubevirt.migrate(vm, "node-b");
  expect(await world.given(next, network, nic(network))).toEqual(ips);
  // An exact repeat changes nothing.
  expect(await world.given(source, network, nic(network))).toEqual(ips);
  for (const ip of ips) await world.untilUsers(network, ip, source, next);
});

test("a migration that fails before its ADD changes nothing", async () => {
  const network = await world.network("fail", dual);
  const vm = await world.vm("failer", network);
  const { pod: source } = await world.kubevirt.startVm(vm, "node-b");
  const ips = await world.given(source, network, nic(network));
  const target = await world.kubevirt.migrate(vm, "node-a", null);
  await world.kubevirt.failMigration(target);
  await world.del(target, network, nic(network));
  for (const ip of ips) await world.untilUsers(network, ip, source);
  expect((await world.kubevirt.claim(vm, "fail")).status.ips).toEqual(ips);
});

test("a VM that starts on another node while its old pod terminates keeps its addresses", async () => {
  const network = await world.network("haste", dual);
  const vm = await world.vm("hasty", network);
  const { pod: old } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(old, network, nic(network));
  // The VMI waits for the pod's object, and that is forced away.
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.kubevirt.removePod(old);
  const { pod } = await world.kubevirt.startVm(vm, "node-b");
  expect(await world.given(pod, network, nic(network))).toEqual(ips);
  await world.del(old, network, nic(network));
  for (const ip of ips) await world.untilUsers(network, ip, pod);
});

test("a new sandbox of a launcher pod keeps the addresses, and the late DEL of the old one ends nothing", async () => {
  const network = await world.network("sandbox", dual);
  const vm = await world.vm("rebuilt", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const first = { ...nic(network), containerId: "first-sandbox" };
  const ips = await world.given(pod, network, first);
  const second = { ...nic(network), containerId: "second-sandbox" };
  expect(await world.given(pod, network, second)).toEqual(ips);
  await world.del(pod, network, first);
  await world.untilUsers(network, ips[0] as string, pod);
  const object = await world.allocation(network, ips[0] as string);
  expect(Object.keys(object.status.attachments)).toEqual([`second-sandbox/${second.ifname}`]);
});

test("a VM on two networks with the same subnets keeps its addresses on both", async () => {
  const [one, two] = [await world.network("twin-one", dual), await world.network("twin-two", dual)];
  const vm = await world.vm("twins", one, two);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const given = await Promise.all([one, two].map((network) => world.given(pod, network, nic(network))));
  await world.kubevirt.stopVm(vm, {
    meanwhile: async () => {
      for (const network of [one, two]) await world.del(pod, network, nic(network));
    },
  });
  const again = await world.kubevirt.startVm(vm, "node-c");
  for (const [index, network] of [one, two].entries()) {
    expect(await world.given(again.pod, network, nic(network))).toEqual(given[index]);
  }
});
