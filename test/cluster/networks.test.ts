import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const NETWORKS = "k8s.v1.cni.cncf.io/networks";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function nadPath(name: string): string {
  return pathOf(NAMESPACE, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
}

/** Changes a NAD, and waits until every node has seen it. `sign` is what they tell of it then. */
async function editNad(name: string, config: string, sign: string): Promise<void> {
  await world.cluster.api.patch(nadPath(name), { spec: { config } });
  await untilSeen(sign);
}

async function untilSeen(sign: string): Promise<void> {
  for (const node of world.nodes) {
    await world.until(
      async () => (await node.daemon.cli("networks", "-o", "json")).stdout.includes(sign),
      `${node.name} to see ${sign}`,
    );
  }
}

function annotate(pod: KubeObject, networks: unknown): Promise<KubeObject> {
  const text = networks === null ? null : JSON.stringify(networks);
  const path = pathOf(NAMESPACE, "pods", pod.metadata.name);
  return world.cluster.api.patch(path, { metadata: { annotations: { [NETWORKS]: text } } });
}

function podWith(name: string, node: string, networks: readonly object[]): Promise<KubeObject> {
  return world.kubevirt.createPod(NAMESPACE, name, { node, networks: networks as { name: string }[] });
}

test("a NAD that names a file of the node is refused before an address is reserved", async () => {
  const network = await world.network("files", { resolvConf: "/etc/resolv.conf" });
  const pod = await world.pod("files", "node-a", network);
  expect(await world.refused(pod, network, 7)).toMatch(
    /^ipam\.resolvConf is \/etc\/resolv\.conf: .*set resolvConfInNads: on in the daemon's settings/,
  );
  expect(await world.allocations(network)).toEqual([]);
  const { code, stdout } = await world.node("node-a").daemon.cli("check");
  expect({ code, stdout }).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("network files serves no ADD"),
  });
  await editNad("files", configOf("files", { subnets: "10.7.0.0/24" }), "10.7.0.0/24");
  await world.given(pod, network);
});

test("each interface of a pod on one network has its own address, and keeps it", async () => {
  const network = await world.network("multi", { subnets: "10.0.0.0/24,fd00::/64" });
  const pod = await podWith("multi", "node-a", [{ name: "multi" }, { name: "multi" }, { name: "multi" }]);
  const interfaces = ["net1", "net2", "net3"];
  const given = await Promise.all(interfaces.map((ifname) => world.given(pod, network, { ifname })));
  expect(new Set(given.flat()).size).toBe(6);
  const second = interfaces.map((ifname) => world.given(pod, network, { ifname, containerId: "multi-second" }));
  expect(await Promise.all(second)).toEqual(given);
  await world.del(pod, network, { ifname: "net2", containerId: "multi-second" });
  for (const ip of given[1] as string[]) await world.becomes(network, ip, "Cooling");
  expect((await world.allocations(network)).filter(({ status }) => status.state === "Bound")).toHaveLength(4);
  // An owner takes its own back.
  expect(await world.given(pod, network, { ifname: "net2", containerId: "multi-third" })).toEqual(given[1]);
});

test("pods may attach through a NAD of another namespace", async () => {
  await world.kubevirt.createNamespace("infra");
  const network = { name: "infra-network", config: configOf("infra-network") };
  await world.kubevirt.createNad("infra", "uplink", network.config);
  const pod = await podWith("guest", "node-a", [{ name: "uplink", namespace: "infra" }]);
  const other = await podWith("guest-too", "node-b", [{ name: "uplink", namespace: "infra" }]);
  expect(await world.given(pod, network)).not.toEqual(await world.given(other, network));
});

test("keys beside the plugin list of a NAD apply to the network", async () => {
  const name = "listed";
  const plugin = { type: "bridge", ipam: { type: "holdfast-ipam" } };
  const list = { cniVersion: "1.0.0", name, allowPersistentIPs: true, subnets: "10.5.0.0/24" };
  await world.kubevirt.createNad(NAMESPACE, name, { ...list, plugins: [plugin, { type: "tuning" }] });
  // What the runtime passes on lacks them.
  const network = { name, config: JSON.stringify({ cniVersion: "1.0.0", name, ...plugin }) };
  const vm = await world.vm("listed", network);
  const options = { ifname: interfaceOf(name) };
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ips = await world.given(pod, network, options);
  expect(ips).toEqual([expect.stringMatching(/^10\.5\.0\.\d+\/24$/)]);
  expect(await world.given(await world.kubevirt.migrate(vm, "node-b"), network, options)).toEqual(ips);
  expect((await world.kubevirt.claim(vm, name)).status.ips).toEqual(ips);
});

test("the address of a bridge with isGateway only in the node's configuration is not given, and a refusal names the pod that holds it", async () => {
  const network = await world.network("gate", { subnets: "10.7.0.0/29" });
  const onBridge = { ...network, config: configOf("gate", { subnets: "10.7.0.0/29" }, { isGateway: true }) };
  const [one, two] = [
    await podWith("gate-one", "node-a", [{ name: "gate", ips: ["10.7.0.1"] }]),
    await podWith("gate-two", "node-b", [{ name: "gate" }]),
  ] as const;
  expect(await world.given(one, network)).toEqual(["10.7.0.1/29"]);
  expect(await world.refused(two, onBridge, 128)).toContain("shop/gate-one");
  await world.del(one, network);
  await world.becomes(network, "10.7.0.1/29", "Cooling");
  const given = await world.given(two, onBridge);
  expect(given).toEqual([expect.stringMatching(/^10\.7\.0\.[2-6]\/29$/)]);
});

test("of two NADs that define one network differently the older one counts, and ADDs through the younger are refused until it is corrected", async () => {
  const older = configOf("clash");
  const younger = configOf("clash", { subnets: "10.66.0.0/24" });
  await world.kubevirt.createNad(NAMESPACE, "clash-one", older);
  await world.kubevirt.createNad(NAMESPACE, "clash-two", younger);
  await untilSeen("shop/clash-one");
  const through = (nad: string, index: number) =>
    podWith(`${nad}-${index}`, `node-${index % 2 === 0 ? "a" : "b"}`, [{ name: nad }]);
  const [one, two] = [
    { name: "clash", config: older },
    { name: "clash", config: younger },
  ] as const;
  for (const index of [0, 1]) {
    const bad = await through("clash-two", index);
    const said = await world.refused(bad, two, 7);
    expect(said).toContain("shop/clash-two");
    expect(said).toContain("shop/clash-one");
    expect(await world.untilEvent(bad, "DefinitionConflict")).toContain("shop/clash-one");
    const [ip] = await world.given(await through("clash-one", index), one);
    expect(ip).toMatch(/^10\.0\.0\./);
  }
  await world.cluster.api.patch(nadPath("clash-two"), { spec: { config: older } });
  const mended = await through("clash-two", 2);
  await world.until(async () => (await world.add(mended, one)).code === 0, "the mended NAD to serve");
});

test("after an edit of the range existing addresses stay, and new ones come from the new range", async () => {
  const network = await world.network("edited");
  const vm = await world.vm("edited", network);
  const options = { ifname: interfaceOf("edited") };
  const { pod: launcher } = await world.kubevirt.startVm(vm, "node-a");
  const ofVm = await world.given(launcher, network, options);
  const pod = await world.pod("settled", "node-a", network);
  const ofPod = await world.given(pod, network);

  const config = configOf("edited", { subnets: "10.8.0.0/24" });
  await editNad("edited", config, "10.8.0.0/24");
  const edited: Network = { name: "edited", config };
  for (const node of ["node-a", "node-b"]) {
    const [ip] = await world.given(await world.pod(`fresh-${node}`, node, edited), edited);
    expect(ip).toMatch(/^10\.8\.0\.\d+\/24$/);
  }
  expect(await world.given(pod, edited, { containerId: "settled-second" })).toEqual(ofPod);
  expect(await world.given(await world.kubevirt.migrate(vm, "node-b"), edited, options)).toEqual(ofVm);
  await world.del(pod, edited, { containerId: "settled-second" });
  await world.becomes(network, ofPod[0] as string, "Cooling");
});

test("repeated ADDs and DELs succeed after the NAD is deleted", async () => {
  const network = await world.network("gone");
  const pod = await world.pod("orphan", "node-a", network);
  const ips = await world.given(pod, network);
  await world.cluster.api.delete(nadPath("gone"));
  await world.until(
    async () => !(await world.node("node-a").daemon.cli("networks", "-o", "json")).stdout.includes("shop/gone"),
    "the node to see it",
  );
  expect(await world.given(pod, network)).toEqual(ips);
  await world.del(pod, network);
  await world.becomes(network, ips[0] as string, "Cooling");
});

test.each(["selection element", "runtimeConfig"])("an address can be requested by %s", async (where) => {
  const name = where === "runtimeConfig" ? "asked-runtime" : "asked-element";
  const network = await world.network(name);
  let count = 0;
  const ask = async (node: string, ip: string) => {
    count += 1;
    const element = where === "runtimeConfig" ? {} : { ips: [ip] };
    const pod = await world.pod(`${name}-${count}`, node, network, element);
    const runtimeConfig = where === "runtimeConfig" ? { ips: [ip] } : {};
    return { pod, options: { config: { ...JSON.parse(network.config), runtimeConfig } } };
  };
  const first = await ask("node-a", "10.0.0.50/24");
  expect(await world.given(first.pod, network, first.options)).toEqual(["10.0.0.50/24"]);
  for (const node of ["node-a", "node-b"]) {
    const second = await ask(node, "10.0.0.50");
    expect(await world.refused(second.pod, network, 120, second.options)).toContain(
      `10.0.0.50 is held by pod shop/${first.pod.metadata.name} (net1)`,
    );
  }
  const outside = await ask("node-b", "10.1.0.50");
  expect(await world.refused(outside.pod, network, 121, outside.options)).toContain("10.1.0.50 is not in");
  const mask = await ask("node-b", "10.0.0.51/16");
  expect(await world.refused(mask.pod, network, 7, mask.options)).toContain("10.0.0.51/16");
  expect(await world.allocations(network)).toHaveLength(1);
});

test("an interface can be hot-plugged and unplugged while the pod runs", async () => {
  const [network, extra] = [await world.network("plugged"), await world.network("extra")];
  await world.claim("hot", "extra");
  const pod = await podWith("hotplug", "node-a", [{ name: "plugged" }]);
  const [stays] = await world.given(pod, network);
  // At once: what the node has in memory may not have it yet.
  await annotate(pod, [{ name: "plugged" }, { name: "extra", "ipam-claim-reference": "hot" }]);
  const ips = await world.given(pod, extra, { ifname: "net2" });
  expect((await world.readClaim("hot")).status.ips).toEqual(ips);
  await annotate(pod, [{ name: "plugged" }]);
  await world.del(pod, extra, { ifname: "net2" });
  await world.untilUsers(extra, ips[0] as string);
  await annotate(pod, [{ name: "plugged" }, { name: "extra" }]);
  const plain = await world.given(pod, extra, { ifname: "net2", containerId: "hotplug-again" });
  expect(plain).not.toEqual(ips);
  await world.del(pod, extra, { ifname: "net2", containerId: "hotplug-again" });
  await world.becomes(extra, plain[0] as string, "Cooling");
  expect((await world.allocation(network, stays as string)).status.state).toBe("Bound");
});
