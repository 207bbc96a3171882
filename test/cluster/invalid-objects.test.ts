import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const NODES = ["node-a", "node-b"];

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: NODES });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

test.each([
  ["no-json", "{{{", 6],
  ["no-range", '{"name":"no-range","ipam":{"type":"holdfast-ipam"}}', 7],
  ["bad-range", configOf("bad-range", { subnets: "10.0.0.0/99" }), 7],
  ["bad-key", configOf("bad-key", { subnet5: "10.0.0.0/24" }), 7],
])("an ADD through an invalid NAD is refused: %s", async (name, config, code) => {
  const sound = await world.network(`beside-${name}`);
  await world.kubevirt.createNad(NAMESPACE, name, config);
  // A runtime that still has an older configuration in its hands.
  const network = { name, config: configOf(name) };
  const pod = await world.kubevirt.createPod(NAMESPACE, `through-${name}`, {
    node: "node-a",
    networks: [{ name }],
  });
  await world.refused(pod, network, code);
  for (const node of NODES) {
    await world.given(await world.pod(`beside-${name}-${node}`, node, sound), sound);
  }
  await world.del(pod, network);
});

test.each([
  ["unclosed", '[{"name": "beside"'],
  ["no-list", '{"name": "beside"}'],
  ["numbers", "[1, 2]"],
  ["bad-name", '[{"name": "Not A Name"}]'],
])("an invalid networks annotation on a pod is refused with an event: %s", async (name, text) => {
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

test("claims with invalid addresses do not prevent the import of a network", async () => {
  await world.claim("old-nonsense", "inherited", { ips: ["::gg/64", "", "10.0.0.300/24"] });
  await world.claim("old-outside", "inherited", { ips: ["192.168.9.9/24"] });
  await world.claim("old-sound", "inherited", { ips: ["10.0.0.20/24"] });
  await world.claim("old-nameless", "", { ips: ["10.0.0.21/24"] });
  const network = await world.network("inherited");
  const asks = await world.pod("asks", "node-b", network, { ips: ["10.0.0.20"] });
  expect(await world.refused(asks, network, 120)).toContain("claim shop/old-sound");
  await world.given(await world.pod("plain", "node-a", network), network);
  const sound = await world.pod("sound", "node-a", network, { "ipam-claim-reference": "old-sound" });
  expect(await world.given(sound, network)).toEqual(["10.0.0.20/24"]);
  const broken = await world.pod("broken", "node-a", network, { "ipam-claim-reference": "old-nonsense" });
  await world.refused(broken, network, 130);
});
