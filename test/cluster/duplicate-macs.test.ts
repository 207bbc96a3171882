/** Two machines with one MAC on one network: nobody else sees that. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const MAC = "02:00:00:00:00:0a";
const NIC = { ifname: interfaceOf("nic") };

let world: World;
let blue: Network;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller: {} });
  blue = await world.network("blue");
});
afterAll(() => world?.stop());

const vmWith = (name: string, mac: string): Promise<Vm> =>
  world.kubevirt.createVm(NAMESPACE, name, [{ logical: "nic", nad: "blue", network: "blue", mac }]);
const checked = () => world.cli("check", "--kubeconfig", world.cluster.kubeconfig("admin"), "--grace", "0");

test("pods and VMIs are told, and check names them until one of them has gone", async () => {
  const first = await vmWith("first", MAC);
  const one = await world.kubevirt.startVm(first, "node-a");
  await world.given(one.pod, blue, NIC);
  // A migration has two interfaces with one MAC, of one VM.
  const target = await world.kubevirt.migrate(first, "node-b");
  await world.given(target, blue, NIC);
  await world.settled();
  const second = await vmWith("second", MAC.toUpperCase());
  const two = await world.kubevirt.startVm(second, "node-b");
  await world.given(two.pod, blue, NIC);
  const text = `${MAC} is the MAC address of claim shop/first.nic and of claim shop/second.nic on network blue`;
  for (const object of [one.pod, one.vmi, target, two.pod, two.vmi])
    expect(await world.untilEvent(object, "DuplicateMAC")).toContain(text);
  const found = await checked();
  expect(found).toMatchObject({ code: 1, stdout: expect.stringContaining(text) });
  await world.kubevirt.stopVm(second, { remove: false });
  await world.del(two.pod, blue, NIC);
  await world.kubevirt.removePod(two.pod);
  await world.until(async () => (await checked()).code === 0, "the finding to go");
  await world.settled();
});

test("a VM without a claim that migrates is one machine", async () => {
  const plain = await world.network("plain", {}, { allowPersistentIPs: false });
  const vm = await world.kubevirt.createVm(NAMESPACE, "claimless", [
    { logical: "nic", nad: "plain", network: "plain", mac: "02:00:00:00:00:0c" },
  ]);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  await world.given(pod, plain, NIC);
  const target = await world.kubevirt.migrate(vm, "node-b");
  await world.given(target, plain, NIC);
  expect(await checked()).toMatchObject({ code: 0 });
});

test("a pod that has ended has no interface any more, though its DEL is still to come", async () => {
  const red = await world.network("red");
  const mac = "02:00:00:00:00:0d";
  const job = await world.pod("job", "node-a", red, { mac });
  await world.given(job, red);
  const next = await world.pod("next-job", "node-b", red, { mac });
  await world.given(next, red);
  expect(await checked()).toMatchObject({ code: 1, stdout: expect.stringContaining(mac) });
  await world.kubevirt.finishPod(job);
  expect((await checked()).stdout).not.toContain(mac);
  await world.del(job, red);
});
