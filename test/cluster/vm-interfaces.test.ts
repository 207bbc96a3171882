import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function vmWith(name: string, network: Network, ...logicals: readonly string[]): Promise<Vm> {
  const nics = logicals.map((logical) => ({ logical, nad: network.name, network: network.name }));
  return world.kubevirt.createVm(NAMESPACE, name, nics);
}

/** The addresses of each interface of a launcher pod, all asked for at once. */
function givenTo(vm: Vm, pod: KubeObject, network: Network): Promise<string[][]> {
  const ask = ({ logical }: Vm["networks"][number]) => world.given(pod, network, { ifname: interfaceOf(logical) });
  return Promise.all(vm.networks.map(ask));
}

async function listed(vm: Vm): Promise<string[][]> {
  const claims = await Promise.all(vm.networks.map(({ logical }) => world.readClaim(claimName(vm, logical))));
  return claims.map((claim) => claim?.status?.ips ?? []);
}

test("each interface of a VM on one network definition keeps the address of its own claim", async () => {
  const network = await world.network("double", { subnets: "10.7.0.0/24,fd07::/64" });
  const vm = await vmWith("double", network, "left", "right");
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const references = JSON.parse(pod.metadata.annotations["k8s.v1.cni.cncf.io/networks"]).map(
    (one: KubeObject) => one["ipam-claim-reference"],
  );
  expect(references, "as ipam-extensions writes them").toEqual(["double.right", "double.right"]);
  const given = await givenTo(vm, pod, network);
  expect(new Set(given.flat()).size).toBe(4);
  expect(await listed(vm)).toEqual(given);

  const target = await world.kubevirt.migrate(vm, "node-b");
  expect(await givenTo(vm, target, network)).toEqual(given);
  await world.kubevirt.finishPod(pod);
  for (const { logical } of vm.networks) await world.del(pod, network, { ifname: interfaceOf(logical) });

  await world.kubevirt.stopVm(vm, { remove: false });
  for (const { logical } of vm.networks) await world.del(target, network, { ifname: interfaceOf(logical) });
  await world.kubevirt.removePod(target);
  const again = await world.kubevirt.startVm(vm, "node-a");
  expect(await givenTo(vm, again.pod, network)).toEqual(given);
});

test("an interface that is plugged in on the same network definition leaves the first its claim", async () => {
  const network = await world.network("plugged");
  const vm = await vmWith("plugged", network, "first");
  const { vmi, pod } = await world.kubevirt.startVm(vm, "node-a");
  const [first] = await givenTo(vm, pod, network);
  const more = await vmWith("plugged-more", network, "first", "second");
  const both = { ...vm, networks: more.networks };
  await world.kubevirt.plug(both, vmi, pod);
  const second = await world.given(pod, network, { ifname: interfaceOf("second") });
  expect(await listed(both)).toEqual([first, second]);
  // A new sandbox: both interfaces name the second one's claim now.
  const sandbox = { ifname: interfaceOf("first"), containerId: "plugged-again" };
  expect(await world.given(pod, network, sandbox)).toEqual(first);
});

test("a network of a VM whose name is none of a claim leads to the claim that ipam-extensions made of it", async () => {
  const network = await world.network("spelt");
  const vm = await vmWith("spelt", network, "Blue_1", "green");
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const given = await givenTo(vm, pod, network);
  expect((await world.readClaim("spelt.blue.1"))?.status.ips).toEqual(given[0]);
  expect((await world.readClaim("spelt.green"))?.status.ips).toEqual(given[1]);
});

test("the claim of the other interface still serves no pod of another VM", async () => {
  const network = await world.network("guarded");
  const vm = await vmWith("guarded", network, "left", "right");
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  await givenTo(vm, pod, network);
  // Its launcher pods name the claims of the first VM.
  const other = await vmWith("stranger", network, "left", "right");
  const running = await world.kubevirt.startVm(other, "node-b");
  const thief = await world.kubevirt.createLauncher({ ...vm, uid: other.uid }, running.vmi, "node-b");
  expect(await world.refused(thief, network, 11, { ifname: interfaceOf("left") })).toContain(
    "belongs to VirtualMachine guarded",
  );
});
