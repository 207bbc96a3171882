import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { CLAIMS, interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** Longer than any grace of the controller here, ms. */
const LONG_MS = 60_000;

let world: World;
beforeAll(async () => {
  const controller = { sweepIntervalSeconds: 1, sweepGraceSeconds: 1, coolingKeepSeconds: 3_600 };
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const vmOn = (...networks: readonly Network[]): Vm["networks"] =>
  networks.map(({ name }) => ({ logical: name, nad: name, network: name }));
const nic = ({ name }: Network) => ({ ifname: interfaceOf(name) });
const listedBy = async (vm: Vm, { name }: Network) => (await world.readClaim(claimName(vm, name)))?.status.ips;

/** KubeVirt's controller deletes the claim of an interface that the VM has no longer, and lets go of it. */
async function deleteClaim(name: string): Promise<void> {
  await world.deleteClaim(name);
  await world.cluster.api.patch(pathOf(NAMESPACE, "ipamclaims", name, CLAIMS), {
    metadata: { finalizers: [] },
  });
}

test("an interface is plugged in by a migration and unplugged by the next, and its addresses live as long as its claim", async () => {
  const steady = await world.network("steady", { subnets: "10.61.0.0/24" });
  const extra = await world.network("extra", { subnets: "10.62.0.0/24,fd62::/64" });
  const alone = await world.kubevirt.createVm(NAMESPACE, "plugged", vmOn(steady));
  const { pod: first } = await world.kubevirt.startVm(alone, "node-a");
  const kept = await world.given(first, steady, nic(steady));

  // The VM's template gets the interface; the launcher pod of a migration is the first that has it.
  const both = await world.kubevirt.changeNetworks(alone, vmOn(steady, extra));
  const second = await world.kubevirt.migrate(both, "node-b");
  expect(await world.given(second, steady, nic(steady))).toEqual(kept);
  const added = await world.given(second, extra, nic(extra));
  expect(added).toHaveLength(2);
  expect(await listedBy(both, extra)).toEqual(added);
  await world.kubevirt.finishPod(first);
  await world.del(first, steady, nic(steady));

  // It is detached from the guest, and the next launcher pod is without it.
  await world.del(second, extra, nic(extra));
  const again = await world.kubevirt.changeNetworks(both, vmOn(steady));
  const third = await world.kubevirt.migrate(again, "node-a");
  expect(await world.given(third, steady, nic(steady))).toEqual(kept);
  await world.kubevirt.finishPod(second);
  await world.del(second, steady, nic(steady));

  await world.advance(LONG_MS);
  for (const ip of added) expect(await world.state(extra, ip), `${ip}, of a claim that is there`).toBe("Bound");
  await deleteClaim(claimName(both, extra.name));
  for (const ip of added) await world.becomes(extra, ip, "Cooling");
  expect(await listedBy(again, steady)).toEqual(kept);
  expect(await world.given(third, steady, nic(steady)), "asked once more").toEqual(kept);
});
