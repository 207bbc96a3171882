/** A network is changed in a cluster while VMs have addresses of it, in use or not. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { NADS_PATH, namespacedPath } from "../../kube/objects.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller: {} });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const redefine = ({ name }: Network, ipam: object) =>
  world.cluster.api.patch(namespacedPath(NADS_PATH, NAMESPACE, name), {
    spec: { config: configOf(name, ipam) },
  });

async function listed(vm: Vm, network: Network): Promise<string[]> {
  return (await world.readClaim(claimName(vm, network.name))).status.ips;
}

/** `False PrefixLengthChanged`, or "none". */
async function standing(vm: Vm, network: Network): Promise<string> {
  const { status } = await world.readClaim(claimName(vm, network.name));
  const one = (status.conditions ?? []).find(({ type }: { type: string }) => type === "NetworkUpToDate");
  return one === undefined ? "none" : `${one.status} ${one.reason}`;
}

test.for<[string, object, string, RegExp[]]>([
  ["enlarged", { subnets: "10.0.0.0/23" }, "PrefixLengthChanged", [/^10\.0\.0\.\d+\/23$/]],
  ["dual", { subnets: "10.0.0.0/24,fd00::/64" }, "FamilyAdded", [/^10\.0\.0\.\d+\/24$/, /^fd00::.*\/64$/]],
])(
  "a VM on a network that is %s keeps what it has while it runs, and has what is new from its next start on",
  async ([name, ipam, reason, expected]) => {
    const network = await world.network(name);
    const vm = await world.vm(name, network);
    const options = { ifname: interfaceOf(network.name) };
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    const first = await world.given(pod, network, options);
    const changed = { ...network, config: configOf(name, ipam) };
    await redefine(network, ipam);
    await world.until(async () => (await standing(vm, network)) === `False ${reason}`, "the claim is told");
    expect(await listed(vm, network), "while it runs").toEqual(first);
    expect(await world.untilEvent(await world.readClaim(claimName(vm, name)), reason)).toContain("was changed");
    await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, changed, options) });
    await world.until(async () => (await standing(vm, network)) === "True UpToDate", "the list follows");
    const next = await world.kubevirt.startVm(vm, "node-b");
    const ips = await world.given(next.pod, changed, options);
    expect(ips).toEqual(expected.map((one) => expect.stringMatching(one)));
    expect(ips[0]?.split("/")[0], "its address").toBe(first[0]?.split("/")[0]);
    await world.untilLists(claimName(vm, network.name), ips);
  },
);

test("a claim with an address that its network does not give any more keeps it, and is told", async () => {
  const network = await world.network("moved");
  const vm = await world.vm("moved", network);
  const options = { ifname: interfaceOf(network.name) };
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const first = await world.given(pod, network, options);
  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, options) });
  const ipam = { subnets: "10.9.0.0/24" };
  await redefine(network, ipam);
  const told = async () => (await standing(vm, network)) === "False AddressOutsideNetwork";
  await world.until(told, "the claim is told");
  const next = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(next.pod, { ...network, config: configOf("moved", ipam) }, options);
  expect(ips).toEqual(first);
});

test("a definition that is refused is noted by the check of a node, before any pod uses it", async () => {
  const network = await world.network("broken");
  await redefine(network, { subnets: "10.0.0.0/33" });
  const check = async () => (await world.node("node-a").daemon.cli("check")).stdout;
  await world.until(
    async () => (await check()).includes("note: NetworkAttachmentDefinition shop/broken is refused: "),
    "node-a to note it",
  );
  await redefine(network, {});
});
