import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { claimName, interfaceOf } from "../harness/kubevirt.ts";
import { Scenario } from "./scenario.ts";
import type { TestNetwork } from "./scenario-parts.ts";

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({ nodes: ["node-a", "node-b", "node-c"] });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

const dual = { subnets: "10.0.0.0/24,fd00::/64" };

function nic(network: TestNetwork): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

test("a stopped VM keeps its addresses while others fill the network", async () => {
  const network = await scene.network("keep", { subnets: "10.0.0.0/29,fd00::/125" });
  const vm = await scene.vm("sleeper", network);
  const { pod } = await scene.kubevirt.startVm(vm, "node-a");
  const mine = await scene.given(pod, network, nic(network));
  expect(mine).toHaveLength(2);
  expect((await scene.kubevirt.claim(vm, "keep")).status.ips).toEqual(mine);
  await scene.kubevirt.stopVm(vm);
  await scene.del(pod, network, nic(network));
  for (const ip of mine) await scene.untilUsers(network, ip);

  const others: string[] = [];
  for (let index = 0; index < 5; index += 1) {
    const other = await scene.pod(`filler-${index}`, `node-${"abc"[index % 3]}`, network);
    others.push(...(await scene.given(other, network)));
  }
  expect(new Set([...others, ...mine]).size).toBe(12);
  for (const node of ["node-a", "node-b", "node-c"]) {
    const late = await scene.pod(`late-${node}`, node, network);
    expect(await scene.refused(late, network, 11)).toContain("no free address");
  }

  const again = await scene.kubevirt.startVm(vm, "node-c");
  expect(await scene.given(again.pod, network, nic(network))).toEqual(mine);
  await scene.untilOwnerPod(claimName(vm, network.name), again.pod);
});

test("both pods of a migration hold the addresses; the source ends first", async () => {
  const network = await scene.network("move", dual);
  const vm = await scene.vm("mover", network);
  const { pod: source } = await scene.kubevirt.startVm(vm, "node-a");
  const ips = await scene.given(source, network, nic(network));
  const target = await scene.kubevirt.migrate(vm, "node-b", "Pending");
  expect(await scene.given(target, network, nic(network))).toEqual(ips);
  for (const ip of ips) await scene.untilUsers(network, ip, source, target);
  await scene.kubevirt.finishPod(source);
  await scene.del(source, network, nic(network));
  for (const ip of ips) await scene.untilUsers(network, ip, target);
  expect((await scene.allocation(network, ips[0] as string)).status.node).toBe("node-b");
  await scene.kubevirt.removePod(source);

  const next = await scene.kubevirt.migrate(vm, "node-c");
  expect(await scene.given(next, network, nic(network))).toEqual(ips);
  await scene.del(target, network, nic(network));
  await scene.kubevirt.removePod(target);
  for (const ip of ips) await scene.untilUsers(network, ip, next);
  await scene.untilOwnerPod(claimName(vm, network.name), next);

  const other = await scene.vm("newcomer", network);
  const { pod } = await scene.kubevirt.startVm(other, "node-a");
  const fresh = await scene.given(pod, network, nic(network));
  expect(fresh).toHaveLength(2);
  for (const ip of fresh) expect(ips).not.toContain(ip);
});

test("a migration whose target ends first leaves the source everything", async () => {
  const network = await scene.network("stay", dual);
  const vm = await scene.vm("stayer", network);
  const { pod: source } = await scene.kubevirt.startVm(vm, "node-a");
  const ips = await scene.given(source, network, nic(network));
  const target = await scene.kubevirt.migrate(vm, "node-b");
  expect(await scene.given(target, network, nic(network))).toEqual(ips);
  await scene.del(target, network, nic(network));
  await scene.kubevirt.removePod(target);
  for (const ip of ips) await scene.untilUsers(network, ip, source);
  const next = await scene.kubevirt.migrate(vm, "node-b");
  expect(await scene.given(next, network, nic(network))).toEqual(ips);
  // An exact repeat changes nothing.
  expect(await scene.given(source, network, nic(network))).toEqual(ips);
  for (const ip of ips) await scene.untilUsers(network, ip, source, next);
});

test("a migration that fails: its pod ends before its ADD, and its DEL comes all the same", async () => {
  const network = await scene.network("fail", dual);
  const vm = await scene.vm("failer", network);
  const { pod: source } = await scene.kubevirt.startVm(vm, "node-b");
  const ips = await scene.given(source, network, nic(network));
  const target = await scene.kubevirt.migrate(vm, "node-a", null);
  await scene.kubevirt.finishPod(target, "Failed");
  await scene.del(target, network, nic(network));
  await scene.kubevirt.removePod(target);
  for (const ip of ips) await scene.untilUsers(network, ip, source);
  expect((await scene.kubevirt.claim(vm, "fail")).status.ips).toEqual(ips);
});

test("a VM started elsewhere while its old pod still terminates", async () => {
  const network = await scene.network("haste", dual);
  const vm = await scene.vm("hasty", network);
  const { pod: old } = await scene.kubevirt.startVm(vm, "node-a");
  const ips = await scene.given(old, network, nic(network));
  await scene.kubevirt.stopVm(vm, { remove: false });
  await scene.kubevirt.terminatePod(old);
  const { pod } = await scene.kubevirt.startVm(vm, "node-b");
  expect(await scene.given(pod, network, nic(network))).toEqual(ips);
  await scene.del(old, network, nic(network));
  await scene.kubevirt.removePod(old);
  for (const ip of ips) await scene.untilUsers(network, ip, pod);
});

test("a new sandbox of a launcher pod keeps the addresses, and the late DEL of the old one ends nothing", async () => {
  const network = await scene.network("sandbox", dual);
  const vm = await scene.vm("rebuilt", network);
  const { pod } = await scene.kubevirt.startVm(vm, "node-a");
  const first = { ...nic(network), containerId: "first-sandbox" };
  const ips = await scene.given(pod, network, first);
  const second = { ...nic(network), containerId: "second-sandbox" };
  expect(await scene.given(pod, network, second)).toEqual(ips);
  await scene.del(pod, network, first);
  await scene.untilUsers(network, ips[0] as string, pod);
  const object = await scene.allocation(network, ips[0] as string);
  expect(Object.keys(object.status.attachments)).toEqual([`second-sandbox.${second.ifname}`]);
});

test("a VM with two networks that have the same addresses", async () => {
  const [one, two] = [await scene.network("twin-one", dual), await scene.network("twin-two", dual)];
  const vm = await scene.vm("twins", one, two);
  const { pod } = await scene.kubevirt.startVm(vm, "node-a");
  const given = await Promise.all([one, two].map((network) => scene.given(pod, network, nic(network))));
  await scene.kubevirt.stopVm(vm);
  for (const network of [one, two]) await scene.del(pod, network, nic(network));
  const again = await scene.kubevirt.startVm(vm, "node-c");
  for (const [index, network] of [one, two].entries()) {
    expect(await scene.given(again.pod, network, nic(network))).toEqual(given[index]);
  }
});
