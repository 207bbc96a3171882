import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** Of a VM that migrates from the world's namespace, by the same NetworkAttachmentDefinition. */
const OTHER_NAMESPACE = "bank";
const GRACE_SECONDS = 1;

let world: World;

beforeAll(async () => {
  const controller = { sweepIntervalSeconds: 1, sweepGraceSeconds: GRACE_SECONDS };
  world = await World.start({ api: "server", nodes: ["node-a", "node-b", "node-c"], controller });
  await world.cluster.api.create("/api/v1/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: OTHER_NAMESPACE },
  });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function nic(network: Network): { ifname: string } {
  return { ifname: interfaceOf(network.name) };
}

function targetVm(name: string, network: Network): Promise<Vm> {
  const { name: nad } = network;
  const one = { logical: nad, nad, nadNamespace: "shop", network: nad };
  return world.kubevirt.createVm(OTHER_NAMESPACE, name, [one]);
}

/** Longer than the grace and some sweeps. */
async function expectStaysBound(network: Network, ips: readonly string[]): Promise<void> {
  await world.advance((GRACE_SECONDS + 3) * 1_000);
  for (const ip of ips) expect((await world.allocation(network, ip)).status.state).toBe("Bound");
}

test("the guest's address is nobody else's while the target runs, also after its next migration there", async () => {
  const network = await world.network("abroad", { subnets: "10.0.0.0/29", cooldownSeconds: 1 });
  const vm = await world.vm("traveller", network);
  const source = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(source.pod, network, nic(network));

  const there = await targetVm("arrived", network);
  const target = await world.kubevirt.migrateInto(source, there, "node-b");
  const itsOwn = await world.given(target.pod, network, nic(network));
  expect(itsOwn).not.toEqual(ips);
  const [recorded] = Object.values<object>((await world.allocation(network, itsOwn[0] as string)).status.attachments);
  expect(recorded).toMatchObject({ migratedFrom: { namespace: "shop", name: "traveller" } });

  await world.del(source.pod, network, nic(network));
  await world.kubevirt.deleteVm(vm);
  expect(await world.readClaim(claimName(vm, "abroad"))).toBeNull();
  await expectStaysBound(network, ips);

  const next = await world.kubevirt.migrate(there, "node-c");
  expect(await world.given(next, network, nic(network))).toEqual(itsOwn);
  await world.del(target.pod, network, nic(network));
  await world.kubevirt.removePod(target.pod);
  await expectStaysBound(network, ips);
  const others: string[] = [];
  for (const index of [0, 1, 2, 3])
    others.push(...(await world.given(await world.pod(`filler-${index}`, "node-b", network), network)));
  expect(others).not.toContain(ips[0]);
  await world.refused(await world.pod("one-too-many", "node-b", network), network, 11);

  await world.kubevirt.stopVm(there, { meanwhile: () => world.del(next, network, nic(network)) });
  for (const ip of ips) await world.becomes(network, ip, "Cooling");
  const again = await world.kubevirt.startVm(there, "node-a");
  expect(await world.given(again.pod, network, nic(network))).toEqual(itsOwn);
});

test("an address is given back with its claim when no guest of its VM has gone elsewhere", async () => {
  const network = await world.network("at-home", { subnets: "10.0.0.0/24" });
  const [vm, other] = [await world.vm("settled", network), await world.vm("settled-too", network)];
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, nic(network));
  const source = await world.kubevirt.startVm(other, "node-a");
  await world.given(source.pod, network, nic(network));
  const there = await targetVm("arrived-too", network);
  const target = await world.kubevirt.migrateInto(source, there, "node-b");
  await world.given(target.pod, network, nic(network));

  await world.del(pod, network, nic(network));
  await world.kubevirt.deleteVm(vm);
  for (const ip of ips) await world.becomes(network, ip, "Cooling");
});
