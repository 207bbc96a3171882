import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const LONG_NODE = `node-${"n".repeat(195)}`;

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", LONG_NODE] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

/** A network whose name could not be a NAD's. */
async function networkCalled(name: string, nad: string): Promise<Network> {
  await world.kubevirt.createNad(NAMESPACE, nad, configOf(name));
  return { name, config: configOf(name) };
}

function podOn(name: string, node: string, nad: string): Promise<KubeObject> {
  return world.kubevirt.createPod(NAMESPACE, name, { node, networks: [{ name: nad }] });
}

test("a network and a node may have names of 200 characters", async () => {
  const name = `network-${"x".repeat(192)}`;
  const network = await networkCalled(name, "long");
  const sameBeginning = await networkCalled(`${name.slice(0, -1)}y`, "long-too");
  const pods = await Promise.all(["node-a", LONG_NODE].map((node, index) => podOn(`long-${index}`, node, "long")));
  const given = (await Promise.all(pods.map((pod) => world.given(pod, network)))).flat();
  expect(new Set(given).size).toBe(2);
  const object = await world.allocation(network, given[1] as string);
  expect(object.status.node).toBe(LONG_NODE);
  expect(object.spec.network).toBe(name);
  await world.given(await podOn("long-other", LONG_NODE, "long-too"), sameBeginning);
  expect(await world.allocations(network)).toHaveLength(2);

  const networks = [{ logical: "long", nad: "long", network: name }];
  const vm = await world.kubevirt.createVm(NAMESPACE, "long-vm", networks);
  const options = { ifname: interfaceOf("long") };
  const { pod } = await world.kubevirt.startVm(vm, LONG_NODE);
  const ips = await world.given(pod, network, options);
  expect(await world.given(await world.kubevirt.migrate(vm, "node-a"), network, options)).toEqual(ips);
  await world.del(pod, network, options);
});

test("two network names that differ only in case are two networks", async () => {
  const upper = await networkCalled("Tenant_Blue", "capitals");
  const lower = await networkCalled("tenant_blue", "no-capitals");
  const ask = { runtimeConfig: { ips: ["10.0.0.9"] } };
  for (const [network, nad] of [
    [upper, "capitals"],
    [lower, "no-capitals"],
  ] as const) {
    const config = { ...JSON.parse(network.config), ...ask };
    expect(await world.given(await podOn(`in-${nad}`, "node-a", nad), network, { config })).toEqual(["10.0.0.9/24"]);
  }
});
