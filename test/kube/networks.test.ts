import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { interfaceOf } from "../harness/kubevirt.ts";
import { NAMESPACE, Scenario } from "./scenario.ts";
import { configOf, type TestNetwork } from "./scenario-parts.ts";

const NETWORKS = "k8s.v1.cni.cncf.io/networks";

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({ nodes: ["node-a", "node-b"] });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

function nadPath(name: string): string {
  return pathOf(NAMESPACE, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
}

/** Changes a NAD, and waits until every node has seen it. `sign` is what they tell of it then. */
async function editNad(name: string, config: string, sign: string): Promise<void> {
  await scene.cluster.api.patch(nadPath(name), { spec: { config } });
  await untilSeen(sign);
}

async function untilSeen(sign: string): Promise<void> {
  for (const node of scene.nodes) {
    await until(
      async () => (await node.daemon.cli("networks", "-o", "json")).stdout.includes(sign),
      `${node.name} to see ${sign}`,
    );
  }
}

function annotate(pod: KubeObject, networks: unknown): Promise<KubeObject> {
  const text = networks === null ? null : JSON.stringify(networks);
  const path = pathOf(NAMESPACE, "pods", pod.metadata.name);
  return scene.cluster.api.patch(path, { metadata: { annotations: { [NETWORKS]: text } } });
}

function podWith(name: string, node: string, networks: readonly object[]): Promise<KubeObject> {
  return scene.kubevirt.createPod(NAMESPACE, name, { node, networks: networks as { name: string }[] });
}

test("a NAD that names a file of the node is refused before an address is reserved", async () => {
  const network = await scene.network("files", { resolvConf: "/etc/resolv.conf" });
  const pod = await scene.pod("files", "node-a", network);
  expect(await scene.refused(pod, network, 7)).toMatch(
    /^ipam\.resolvConf is \/etc\/resolv\.conf: .*set resolvConfInNads: on in the daemon's settings/,
  );
  expect(await scene.allocations(network)).toEqual([]);
  const { code, stdout } = await scene.node("node-a").daemon.cli("check");
  expect({ code, stdout }).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("network files serves no ADD"),
  });
  await editNad("files", configOf("files", { subnets: "10.7.0.0/24" }), "10.7.0.0/24");
  await scene.given(pod, network);
});

test("each interface of a pod on one network has its own address, and keeps it", async () => {
  const network = await scene.network("multi", { subnets: "10.0.0.0/24,fd00::/64" });
  const pod = await podWith("multi", "node-a", [{ name: "multi" }, { name: "multi" }, { name: "multi" }]);
  const interfaces = ["net1", "net2", "net3"];
  const given = await Promise.all(interfaces.map((ifname) => scene.given(pod, network, { ifname })));
  expect(new Set(given.flat()).size).toBe(6);
  const second = interfaces.map((ifname) =>
    scene.given(pod, network, { ifname, containerId: "multi-second" }),
  );
  expect(await Promise.all(second)).toEqual(given);
  await scene.del(pod, network, { ifname: "net2", containerId: "multi-second" });
  for (const ip of given[1] as string[]) await scene.untilState(network, ip, "Cooling");
  expect((await scene.allocations(network)).filter(({ status }) => status.state === "Bound")).toHaveLength(4);
  // An owner takes its own back.
  expect(await scene.given(pod, network, { ifname: "net2", containerId: "multi-third" })).toEqual(given[1]);
});

test("a NAD of another namespace", async () => {
  await scene.kubevirt.createNamespace("infra");
  const network = { name: "infra-network", config: configOf("infra-network") };
  await scene.kubevirt.createNad("infra", "uplink", network.config);
  const pod = await podWith("guest", "node-a", [{ name: "uplink", namespace: "infra" }]);
  const other = await podWith("guest-too", "node-b", [{ name: "uplink", namespace: "infra" }]);
  expect(await scene.given(pod, network)).not.toEqual(await scene.given(other, network));
});

test("a NAD with a list of plugins, whose keys stand beside the list", async () => {
  const name = "listed";
  const plugin = { type: "bridge", ipam: { type: "holdfast-ipam" } };
  const list = { cniVersion: "1.0.0", name, allowPersistentIPs: true, subnets: "10.5.0.0/24" };
  await scene.kubevirt.createNad(NAMESPACE, name, { ...list, plugins: [plugin, { type: "tuning" }] });
  // What the runtime passes on lacks them.
  const network = { name, config: JSON.stringify({ cniVersion: "1.0.0", name, ...plugin }) };
  const vm = await scene.vm("listed", network);
  const options = { ifname: interfaceOf(name) };
  const { pod } = await scene.kubevirt.startVm(vm, "node-a");
  const ips = await scene.given(pod, network, options);
  expect(ips).toEqual([expect.stringMatching(/^10\.5\.0\.\d+\/24$/)]);
  expect(await scene.given(await scene.kubevirt.migrate(vm, "node-b"), network, options)).toEqual(ips);
  expect((await scene.kubevirt.claim(vm, name)).status.ips).toEqual(ips);
});

test("a bridge with isGateway that the NAD does not know of: its address is nobody's, and whoever has it is named", async () => {
  const network = await scene.network("gate", { subnets: "10.7.0.0/29" });
  const onBridge = { ...network, config: configOf("gate", { subnets: "10.7.0.0/29" }, { isGateway: true }) };
  const [one, two] = [
    await podWith("gate-one", "node-a", [{ name: "gate", ips: ["10.7.0.1"] }]),
    await podWith("gate-two", "node-b", [{ name: "gate" }]),
  ] as const;
  expect(await scene.given(one, network)).toEqual(["10.7.0.1/29"]);
  expect(await scene.refused(two, onBridge, 128)).toContain("shop/gate-one");
  await scene.del(one, network);
  await scene.untilState(network, "10.7.0.1/29", "Cooling");
  const given = await scene.given(two, onBridge);
  expect(given).toEqual([expect.stringMatching(/^10\.7\.0\.[2-6]\/29$/)]);
});

test("two NADs of one network that disagree: the older counts, until the younger is mended", async () => {
  const older = configOf("clash");
  const younger = configOf("clash", { subnets: "10.66.0.0/24" });
  await scene.kubevirt.createNad(NAMESPACE, "clash-one", older);
  await scene.kubevirt.createNad(NAMESPACE, "clash-two", younger);
  await untilSeen("shop/clash-one");
  const through = (nad: string, index: number) =>
    podWith(`${nad}-${index}`, `node-${index % 2 === 0 ? "a" : "b"}`, [{ name: nad }]);
  const [one, two] = [
    { name: "clash", config: older },
    { name: "clash", config: younger },
  ] as const;
  for (const index of [0, 1]) {
    const bad = await through("clash-two", index);
    const said = await scene.refused(bad, two, 7);
    expect(said).toContain("shop/clash-two");
    expect(said).toContain("shop/clash-one");
    expect(await scene.untilEvent(bad, "DefinitionConflict")).toContain("shop/clash-one");
    const [ip] = await scene.given(await through("clash-one", index), one);
    expect(ip).toMatch(/^10\.0\.0\./);
  }
  await scene.cluster.api.patch(nadPath("clash-two"), { spec: { config: older } });
  const mended = await through("clash-two", 2);
  await until(async () => (await scene.add(mended, one)).code === 0, "the mended NAD to serve");
});

test("a range that is edited: old addresses stay, new ones come from the new range", async () => {
  const network = await scene.network("edited");
  const vm = await scene.vm("edited", network);
  const options = { ifname: interfaceOf("edited") };
  const { pod: launcher } = await scene.kubevirt.startVm(vm, "node-a");
  const ofVm = await scene.given(launcher, network, options);
  const pod = await scene.pod("settled", "node-a", network);
  const ofPod = await scene.given(pod, network);

  const config = configOf("edited", { subnets: "10.8.0.0/24" });
  await editNad("edited", config, "10.8.0.0/24");
  const edited: TestNetwork = { name: "edited", config };
  for (const node of ["node-a", "node-b"]) {
    const [ip] = await scene.given(await scene.pod(`fresh-${node}`, node, edited), edited);
    expect(ip).toMatch(/^10\.8\.0\.\d+\/24$/);
  }
  expect(await scene.given(pod, edited, { containerId: "settled-second" })).toEqual(ofPod);
  expect(await scene.given(await scene.kubevirt.migrate(vm, "node-b"), edited, options)).toEqual(ofVm);
  await scene.del(pod, edited, { containerId: "settled-second" });
  await scene.untilState(network, ofPod[0] as string, "Cooling");
});

test("a NAD that is deleted with pods alive: repeats and DEL need none", async () => {
  const network = await scene.network("gone");
  const pod = await scene.pod("orphan", "node-a", network);
  const ips = await scene.given(pod, network);
  await scene.cluster.api.delete(nadPath("gone"));
  await until(
    async () =>
      !(await scene.node("node-a").daemon.cli("networks", "-o", "json")).stdout.includes("shop/gone"),
    "the node to see it",
  );
  expect(await scene.given(pod, network)).toEqual(ips);
  await scene.del(pod, network);
  await scene.untilState(network, ips[0] as string, "Cooling");
});

test.each(["selection element", "runtimeConfig"])("an address that is asked for: %s", async (where) => {
  const name = where === "runtimeConfig" ? "asked-runtime" : "asked-element";
  const network = await scene.network(name);
  let count = 0;
  const ask = async (node: string, ip: string) => {
    count += 1;
    const element = where === "runtimeConfig" ? {} : { ips: [ip] };
    const pod = await scene.pod(`${name}-${count}`, node, network, element);
    const runtimeConfig = where === "runtimeConfig" ? { ips: [ip] } : {};
    return { pod, options: { config: { ...JSON.parse(network.config), runtimeConfig } } };
  };
  const first = await ask("node-a", "10.0.0.50/24");
  expect(await scene.given(first.pod, network, first.options)).toEqual(["10.0.0.50/24"]);
  for (const node of ["node-a", "node-b"]) {
    const second = await ask(node, "10.0.0.50");
    expect(await scene.refused(second.pod, network, 120, second.options)).toContain(
      `10.0.0.50 is held by pod shop/${first.pod.metadata.name} (net1)`,
    );
  }
  const outside = await ask("node-b", "10.1.0.50");
  expect(await scene.refused(outside.pod, network, 121, outside.options)).toContain("10.1.0.50 is not in");
  const mask = await ask("node-b", "10.0.0.51/16");
  expect(await scene.refused(mask.pod, network, 7, mask.options)).toContain("10.0.0.51/16");
  expect(await scene.allocations(network)).toHaveLength(1);
});

test("an interface that is plugged in while the pod runs, and unplugged again", async () => {
  const [network, extra] = [await scene.network("plugged"), await scene.network("extra")];
  await scene.claim("hot", "extra");
  const pod = await podWith("hotplug", "node-a", [{ name: "plugged" }]);
  const [stays] = await scene.given(pod, network);
  // At once: what the node has in memory may not have it yet.
  await annotate(pod, [{ name: "plugged" }, { name: "extra", "ipam-claim-reference": "hot" }]);
  const ips = await scene.given(pod, extra, { ifname: "net2" });
  expect((await scene.readClaim("hot")).status.ips).toEqual(ips);
  await annotate(pod, [{ name: "plugged" }]);
  await scene.del(pod, extra, { ifname: "net2" });
  await scene.untilUsers(extra, ips[0] as string);
  await annotate(pod, [{ name: "plugged" }, { name: "extra" }]);
  const plain = await scene.given(pod, extra, { ifname: "net2", containerId: "hotplug-again" });
  expect(plain).not.toEqual(ips);
  await scene.del(pod, extra, { ifname: "net2", containerId: "hotplug-again" });
  await scene.untilState(extra, plain[0] as string, "Cooling");
  expect((await scene.allocation(network, stays as string)).status.state).toBe("Bound");
});
