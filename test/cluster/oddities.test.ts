import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { mirrorOf } from "../harness/kube-pods.ts";
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

test("names of 200 characters: of a network and of a node", async () => {
  const name = `network-${"x".repeat(192)}`;
  const network = await networkCalled(name, "long");
  const sameBeginning = await networkCalled(`${name.slice(0, -1)}y`, "long-too");
  const pods = await Promise.all(
    ["node-a", LONG_NODE].map((node, index) => podOn(`long-${index}`, node, "long")),
  );
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

test("networks whose names differ in capitals only are two networks", async () => {
  const upper = await networkCalled("Tenant_Blue", "capitals");
  const lower = await networkCalled("tenant_blue", "no-capitals");
  const ask = { runtimeConfig: { ips: ["10.0.0.9"] } };
  for (const [network, nad] of [
    [upper, "capitals"],
    [lower, "no-capitals"],
  ] as const) {
    const config = { ...JSON.parse(network.config), ...ask };
    expect(await world.given(await podOn(`in-${nad}`, "node-a", nad), network, { config })).toEqual([
      "10.0.0.9/24",
    ]);
  }
});

test("a static pod: the runtime knows it by another UID than the API", async () => {
  const network = await world.network("static");
  const mirrored = "0123456789abcdef0123456789abcdef";
  const mirror = await world.kubevirt.createPod(NAMESPACE, "static-node-a", {
    node: "node-a",
    networks: [{ name: "static" }],
    ...mirrorOf(mirrored, "node-a"),
  });
  const pod = { ...mirror, metadata: { ...mirror.metadata, uid: mirrored } };
  const ips = await world.given(pod, network);
  expect(await world.given(pod, network)).toEqual(ips);
  const second = { containerId: "static-second" };
  expect(await world.given(pod, network, second)).toEqual(ips);
  expect((await world.allocation(network, ips[0] as string)).spec.owner.uid).toBe(mirrored);
  await world.del(pod, network, second);
  await world.becomes(network, ips[0] as string, "Cooling");
});

test("a plain pod costs one create for each address, one write at its end, and no status", async () => {
  const network = await world.network("cost", { subnets: "10.0.0.0/24,fd00::/64" });
  await world.given(await world.pod("cost-first", "node-a", network), network);
  await world.settled();
  const before = await world.cluster.writes();
  const pods = await Promise.all([0, 1, 2, 3].map((index) => world.pod(`cost-${index}`, "node-a", network)));
  for (const pod of pods) {
    const ips = await world.given(pod, network);
    expect(await world.given(pod, network)).toEqual(ips);
  }
  const after = await world.cluster.writes();
  const more = (resource: string, verb: "create" | "total") =>
    (after[resource]?.[verb] ?? 0) - (before[resource]?.[verb] ?? 0);
  expect(more("ipallocations", "create")).toBe(8);
  expect(more("ipallocations", "total")).toBe(8);
  expect(more("ipamclaims/status", "total")).toBe(0);
  expect(more("ipnetworks", "total")).toBe(0);
  expect(more("events", "total")).toBe(0);
  for (const pod of pods) await world.del(pod, network);
  await world.settled();
  const { ipallocations } = await world.cluster.writes();
  expect((ipallocations?.total ?? 0) - (after.ipallocations?.total ?? 0)).toBe(8);
});

test.each([
  ["no-json", "{{{", 6],
  ["no-range", '{"name":"no-range","ipam":{"type":"holdfast-ipam"}}', 7],
  ["bad-range", configOf("bad-range", { subnets: "10.0.0.0/99" }), 7],
  ["bad-key", configOf("bad-key", { subnet5: "10.0.0.0/24" }), 7],
])("nonsense in a NAD: %s", async (name, config, code) => {
  const sound = await world.network(`beside-${name}`);
  await world.kubevirt.createNad(NAMESPACE, name, config);
  // A runtime that still has an older configuration in its hands.
  const network = { name, config: configOf(name) };
  const pod = await podOn(`through-${name}`, "node-a", name);
  await world.refused(pod, network, code);
  for (const node of ["node-a", LONG_NODE]) {
    await world.given(await world.pod(`beside-${name}-${node.length}`, node, sound), sound);
  }
  await world.del(pod, network);
});

test.each([
  ["unclosed", '[{"name": "beside"'],
  ["no-list", '{"name": "beside"}'],
  ["numbers", "[1, 2]"],
  ["bad-name", '[{"name": "Not A Name"}]'],
])("nonsense in a pod's annotation: %s", async (name, text) => {
  const network = await world.network(`annotated-${name}`);
  const pod = await world.kubevirt.createPod(NAMESPACE, `annotated-${name}`, {
    node: "node-a",
    annotations: { "k8s.v1.cni.cncf.io/networks": text },
  });
  expect(await world.refused(pod, network, 7)).toContain("k8s.v1.cni.cncf.io/networks");
  expect(await world.untilEvent(pod, "ConfigInvalid")).toContain("k8s.v1.cni.cncf.io/networks");
  await world.given(await world.pod(`sound-${name}`, "node-a", network), network);
  await world.del(pod, network);
});

test("nonsense in claims from before the network was ours", async () => {
  await world.claim("old-nonsense", "inherited", { ips: ["::gg/64", "", "10.0.0.300/24"] });
  await world.claim("old-outside", "inherited", { ips: ["192.168.9.9/24"] });
  await world.claim("old-sound", "inherited", { ips: ["10.0.0.20/24"] });
  await world.claim("old-nameless", "", { ips: ["10.0.0.21/24"] });
  const network = await world.network("inherited");
  const asks = await world.pod("asks", LONG_NODE, network, { ips: ["10.0.0.20"] });
  expect(await world.refused(asks, network, 120)).toContain("claim shop/old-sound");
  await world.given(await world.pod("plain", "node-a", network), network);
  const sound = await world.pod("sound", "node-a", network, { "ipam-claim-reference": "old-sound" });
  expect(await world.given(sound, network)).toEqual(["10.0.0.20/24"]);
  const broken = await world.pod("broken", "node-a", network, { "ipam-claim-reference": "old-nonsense" });
  await world.refused(broken, network, 130);
});
