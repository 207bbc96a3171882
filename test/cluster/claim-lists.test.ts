/** What somebody writes into a claim's list neither gives an address to its VM nor takes one from it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };

let world: World;
let blue: Network;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
  blue = await world.network("blue", { subnets: "10.1.0.0/24,fd01::/64" });
});
afterAll(() => world?.stop());

/** Its next start on a node. */
async function started(vm: Vm, node: string): Promise<readonly string[]> {
  const { pod } = await world.kubevirt.startVm(vm, node);
  const ips = await world.given(pod, blue, NIC);
  await world.kubevirt.finishPod(pod);
  await world.del(pod, blue, NIC);
  await world.kubevirt.stopVm(vm);
  return ips;
}

test("a VM has all its addresses again, whichever of them its claim lists", async () => {
  const networks = [{ logical: LOGICAL, nad: blue.name, network: blue.name }];
  const vm = await world.kubevirt.createVm(NAMESPACE, "db", networks);
  const ips = await started(vm, "node-a");
  expect(ips).toHaveLength(2);
  const status = `${namespacedPath(CLAIMS_PATH, NAMESPACE, claimName(vm, LOGICAL))}/status`;
  for (const list of [ips.slice(1), ips.slice(0, 1), []]) {
    await world.cluster.api.patch(status, { status: { ips: list } });
    expect(await started(vm, "node-b"), list.join()).toEqual(ips);
  }
});
