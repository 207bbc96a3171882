import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { mirrorOf } from "../harness/kube-pods.ts";
import { interfaceOf } from "../harness/kubevirt.ts";
import { NAMESPACE, Scenario } from "./scenario.ts";
import { configOf, type TestNetwork } from "./scenario-parts.ts";

const LONG_NODE = `node-${"n".repeat(195)}`;

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({ nodes: ["node-a", LONG_NODE] });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

/** A network whose name could not be a NAD's. */
async function networkCalled(name: string, nad: string): Promise<TestNetwork> {
  await scene.kubevirt.createNad(NAMESPACE, nad, configOf(name));
  return { name, config: configOf(name) };
}

function podOn(name: string, node: string, nad: string): Promise<KubeObject> {
  return scene.kubevirt.createPod(NAMESPACE, name, { node, networks: [{ name: nad }] });
}

test("names of 200 characters: of a network and of a node", async () => {
  const name = `network-${"x".repeat(192)}`;
  const network = await networkCalled(name, "long");
  const sameBeginning = await networkCalled(`${name.slice(0, -1)}y`, "long-too");
  const pods = await Promise.all(
    ["node-a", LONG_NODE].map((node, index) => podOn(`long-${index}`, node, "long")),
  );
  const given = (await Promise.all(pods.map((pod) => scene.given(pod, network)))).flat();
  expect(new Set(given).size).toBe(2);
  const object = await scene.allocation(network, given[1] as string);
  expect(object.status.node).toBe(LONG_NODE);
  expect(object.spec.network).toBe(name);
  await scene.given(await podOn("long-other", LONG_NODE, "long-too"), sameBeginning);
  expect(await scene.allocations(network)).toHaveLength(2);

  const networks = [{ logical: "long", nad: "long", network: name }];
  const vm = await scene.kubevirt.createVm(NAMESPACE, "long-vm", networks);
  const options = { ifname: interfaceOf("long") };
  const { pod } = await scene.kubevirt.startVm(vm, LONG_NODE);
  const ips = await scene.given(pod, network, options);
  expect(await scene.given(await scene.kubevirt.migrate(vm, "node-a"), network, options)).toEqual(ips);
  await scene.del(pod, network, options);
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
    expect(await scene.given(await podOn(`in-${nad}`, "node-a", nad), network, { config })).toEqual([
      "10.0.0.9/24",
    ]);
  }
});

test("a static pod: the runtime knows it by another UID than the API", async () => {
  const network = await scene.network("static");
  const mirrored = "0123456789abcdef0123456789abcdef";
  const mirror = await scene.kubevirt.createPod(NAMESPACE, "static-node-a", {
    node: "node-a",
    networks: [{ name: "static" }],
    ...mirrorOf(mirrored, "node-a"),
  });
  const pod = { ...mirror, metadata: { ...mirror.metadata, uid: mirrored } };
  const ips = await scene.given(pod, network);
  expect(await scene.given(pod, network)).toEqual(ips);
  const second = { containerId: "static-second" };
  expect(await scene.given(pod, network, second)).toEqual(ips);
  expect((await scene.allocation(network, ips[0] as string)).spec.owner.uid).toBe(mirrored);
  await scene.del(pod, network, second);
  await scene.untilState(network, ips[0] as string, "Cooling");
});

test("a plain pod costs one create for each address, one write at its end, and no status", async () => {
  const network = await scene.network("cost", { subnets: "10.0.0.0/24,fd00::/64" });
  await scene.given(await scene.pod("cost-first", "node-a", network), network);
  await scene.expectClean();
  const before = await scene.cluster.writes();
  const pods = await Promise.all([0, 1, 2, 3].map((index) => scene.pod(`cost-${index}`, "node-a", network)));
  for (const pod of pods) {
    const ips = await scene.given(pod, network);
    expect(await scene.given(pod, network)).toEqual(ips);
  }
  const after = await scene.cluster.writes();
  const more = (resource: string, verb: "create" | "total") =>
    (after[resource]?.[verb] ?? 0) - (before[resource]?.[verb] ?? 0);
  expect(more("ipallocations", "create")).toBe(8);
  expect(more("ipallocations", "total")).toBe(8);
  expect(more("ipamclaims/status", "total")).toBe(0);
  expect(more("ipnetworks", "total")).toBe(0);
  expect(more("events", "total")).toBe(0);
  for (const pod of pods) await scene.del(pod, network);
  await scene.expectClean();
  const { ipallocations } = await scene.cluster.writes();
  expect((ipallocations?.total ?? 0) - (after.ipallocations?.total ?? 0)).toBe(8);
});

test.each([
  ["no-json", "{{{", 6],
  ["no-range", '{"name":"no-range","ipam":{"type":"holdfast-ipam"}}', 7],
  ["bad-range", configOf("bad-range", { subnets: "10.0.0.0/99" }), 7],
  ["bad-key", configOf("bad-key", { subnet5: "10.0.0.0/24" }), 7],
])("nonsense in a NAD: %s", async (name, config, code) => {
  const sound = await scene.network(`beside-${name}`);
  await scene.kubevirt.createNad(NAMESPACE, name, config);
  // A runtime that still has an older configuration in its hands.
  const network = { name, config: configOf(name) };
  const pod = await podOn(`through-${name}`, "node-a", name);
  await scene.refused(pod, network, code);
  for (const node of ["node-a", LONG_NODE]) {
    await scene.given(await scene.pod(`beside-${name}-${node.length}`, node, sound), sound);
  }
  await scene.del(pod, network);
});

test.each([
  ["unclosed", '[{"name": "beside"'],
  ["no-list", '{"name": "beside"}'],
  ["numbers", "[1, 2]"],
  ["bad-name", '[{"name": "Not A Name"}]'],
])("nonsense in a pod's annotation: %s", async (name, text) => {
  const network = await scene.network(`annotated-${name}`);
  const pod = await scene.kubevirt.createPod(NAMESPACE, `annotated-${name}`, {
    node: "node-a",
    annotations: { "k8s.v1.cni.cncf.io/networks": text },
  });
  expect(await scene.refused(pod, network, 7)).toContain("k8s.v1.cni.cncf.io/networks");
  expect(await scene.untilEvent(pod, "ConfigInvalid")).toContain("k8s.v1.cni.cncf.io/networks");
  await scene.given(await scene.pod(`sound-${name}`, "node-a", network), network);
  await scene.del(pod, network);
});

test("nonsense in claims from before the network was ours", async () => {
  await scene.claim("old-nonsense", "inherited", { ips: ["::gg/64", "", "10.0.0.300/24"] });
  await scene.claim("old-outside", "inherited", { ips: ["192.168.9.9/24"] });
  await scene.claim("old-sound", "inherited", { ips: ["10.0.0.20/24"] });
  await scene.claim("old-nameless", "", { ips: ["10.0.0.21/24"] });
  const network = await scene.network("inherited");
  const asks = await scene.pod("asks", LONG_NODE, network, { ips: ["10.0.0.20"] });
  expect(await scene.refused(asks, network, 120)).toContain("claim shop/old-sound");
  await scene.given(await scene.pod("plain", "node-a", network), network);
  const sound = await scene.pod("sound", "node-a", network, { "ipam-claim-reference": "old-sound" });
  expect(await scene.given(sound, network)).toEqual(["10.0.0.20/24"]);
  const broken = await scene.pod("broken", "node-a", network, { "ipam-claim-reference": "old-nonsense" });
  await scene.refused(broken, network, 130);
});
