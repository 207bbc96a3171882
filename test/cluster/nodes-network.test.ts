/** A network of the nodes' own CNI configuration, and NetworkAttachmentDefinitions that have its name. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { Tenant } from "../harness/world/tenant.ts";
import { World } from "../harness/world/world.ts";
import { Leftovers } from "./leftovers.ts";

const PRIMARY = { ifname: "eth0" };

let world: World;
let evil: Tenant;
let leftovers: Leftovers;
let kubeconfig: string;
let count = 0;

beforeAll(async () => {
  // No controller but for imports: the daemons and administrators record whose a network is.
  world = await World.start({ api: "memory", nodes: ["node-a"] });
  evil = await Tenant.create(world.cluster, "evil");
  leftovers = new Leftovers(world);
  kubeconfig = world.cluster.kubeconfig("admin");
});
afterAll(async () => {
  evil?.close();
  await world?.stop();
});

const admin = (...args: string[]) => world.cli("--kubeconfig", kubeconfig, ...args);

/** A pod that has only its primary interface. */
function pod(): Promise<KubeObject> {
  count += 1;
  return world.kubevirt.createPod(NAMESPACE, `primary-${count}`, { node: "node-a" });
}

test("a tenant that defined the name first cannot change primary interfaces, and an administrator can reclaim the name", async () => {
  const network: Network = { name: "podnet", config: configOf("podnet", { subnets: "10.30.0.0/24" }) };
  await evil.nad("x", configOf("podnet", { subnets: "10.31.0.0/24", gateway: "10.31.0.66" }));
  // Recorded before the nodes were switched over.
  const early = await evil.pod("early", "node-a", "x");
  await world.given(early, network);
  expect((await leftovers.networkObject("podnet"))?.spec.definedIn).toBe("evil");
  const web = await pod();
  const said = await world.refused(web, network, 7, PRIMARY);
  expect(said).toContain(`pod ${NAMESPACE}/${web.metadata.name}, whose eth0 has no NetworkAttachmentDefinition,`);
  expect(said).toContain("asks for network podnet, which belongs to namespace evil");
  expect(said).toContain("holdfast networks own podnet --administrators");
  expect(await world.untilEvent(web, "NetworkNotShared")).toContain("namespace evil");
  const check = () => world.node("node-a").daemon.cli("check");
  expect((await check()).stdout).toContain(
    "network: the configuration on node node-a defines network podnet differently from NetworkAttachmentDefinition evil/x, " +
      "which counts (ranges 10.30.0.0/24 here, 10.31.0.0/24 there): ADDs that come by it are refused\n" +
      "    fix: make them the same, or remove the ranges from the nodes' configuration;",
  );
  const own = () => admin("networks", "own", "podnet", "--administrators");
  expect(await own()).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^network podnet belongs to the administrators, formerly of evil\n/),
  });
  expect((await own()).stdout).toMatch(/^network podnet belongs to the administrators already\n/);
  // Without waiting: whoever is refused asks again whose the network is.
  expect((await world.given(web, network, PRIMARY))[0]).toMatch(/^10\.30\.0\./);
  expect((await check()).stdout).not.toContain("podnet differently");
  const late = await evil.pod("late", "node-a", "x");
  await world.until(async () => (await world.add(late, network)).code !== 0, "the tenant's definition not to count");
  expect(await world.refused(late, network, 7)).toContain("belongs to the cluster's administrators");
});

test("a network name that administrators have reserved belongs to the nodes' configuration", async () => {
  await world.cluster.api.create("/apis/ipam.holdfast.dev/v1alpha1/ipnetworks", {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPNetwork",
    metadata: { name: "cbr0" },
    spec: { network: "cbr0", definedIn: "" },
  });
  const network: Network = { name: "cbr0", config: configOf("cbr0", { subnets: "10.34.0.0/24" }) };
  await evil.nad("cbr0", configOf("cbr0", { subnets: "10.35.0.0/24" }));
  expect(await world.refused(await evil.pod("first", "node-a", "cbr0"), network, 7)).toContain(
    "belongs to the cluster's administrators",
  );
  expect((await world.given(await pod(), network, PRIMARY))[0]).toMatch(/^10\.34\.0\./);
});

test("a NAD counts beside the nodes' configuration if that has no ranges or the same ones", async () => {
  const network = await world.network("both", { subnets: "10.32.0.0/24" });
  const { ipam, ...plugin } = JSON.parse(network.config);
  const bare = JSON.stringify({ ...plugin, ipam: { type: ipam.type } });
  const spelled = JSON.stringify({
    ...plugin,
    ipam: { type: ipam.type, subnets: ["10.32.0.0/24"] },
  });
  for (const config of [bare, network.config, spelled]) {
    expect((await world.given(await pod(), { ...network, config }, PRIMARY))[0]).toMatch(/^10\.32\.0\./);
  }
});

test("holdfast check on a node reports isGateway that only the node's configuration has", async () => {
  const network = await world.network("bridged", { subnets: "10.36.0.0/24" });
  const { ipam, ...plugin } = JSON.parse(network.config);
  const config = JSON.stringify({ ...plugin, isGateway: true, ipam: { type: ipam.type } });
  await world.given(await pod(), { ...network, config }, PRIMARY);
  const says =
    "configuration of network bridged on node node-a makes the node its gateway (isGateway, or ptp), and NetworkAttachmentDefinition";
  const check = async () => (await world.node("node-a").daemon.cli("check")).stdout;
  expect(await check()).toContain(says);
  await leftovers.editNad("bridged", JSON.stringify({ ...plugin, isGateway: true, ipam }));
  await world.until(async () => !(await check()).includes(says), "the node to know the corrected definition");
});

test("a NAD in Multus's namespace serves the primary interface of pods in every namespace", async () => {
  const network: Network = { name: "main", config: configOf("main", { subnets: "10.36.0.0/29" }) };
  await world.kubevirt.createNad("kube-system", "main", network.config);
  // From before the switch: only the kubelet tells of them.
  await leftovers.primaryPod("main-old", ["10.36.0.2"]);
  const given = [];
  for (const namespace of [NAMESPACE, "evil"]) {
    const pod = await world.kubevirt.createPod(namespace, `main-${namespace}`, { node: "node-a" });
    given.push(...(await world.given(pod, network, PRIMARY)));
  }
  expect(given).not.toContain("10.36.0.2/29");
  const { spec, status } = (await leftovers.networkObject("main")) as KubeObject;
  expect(spec).toEqual({ network: "main", definedIn: "kube-system" });
  expect(status.importedFrom).toContainEqual({ subnets: "10.36.0.0/29" });
});

test("a node network that was moved to a namespace serves all pods as long as the subnets agree", async () => {
  const network: Network = { name: "handed", config: configOf("handed", { subnets: "10.37.0.0/24" }) };
  await world.given(await pod(), network, PRIMARY);
  expect((await admin("networks", "own", "handed", "--namespace", "evil")).code).toBe(0);
  await evil.nad("handed", network.config);
  const through = await evil.pod("handed", "node-a", "handed");
  await world.until(async () => (await world.add(through, network)).code === 0, "the new owner's pods");
  await world.given(await pod(), network, PRIMARY);
  await evil.editNad("handed", { spec: { config: configOf("handed", { subnets: "10.38.0.0/24" }) } });
  await world.until(
    async () => (await world.add(await pod(), network, PRIMARY)).code !== 0,
    "other subnets to be refused",
  );
});

test("networks own wants either a namespace or --administrators", async () => {
  for (const flags of [[], ["--administrators", "--namespace", "evil"]]) {
    const { code, stderr } = await admin("networks", "own", "podnet", ...flags);
    expect(code).not.toBe(0);
    expect(stderr).toContain("either --namespace NAMESPACE or --administrators");
  }
});

test("holdfast import records the network's owner before any address", async () => {
  await world.stopImporter();
  const config = configOf("byhand", { subnets: "10.33.0.0/24" });
  await world.kubevirt.createNad(NAMESPACE, "byhand", config);
  await leftovers.pod("byhand-old", `${NAMESPACE}/byhand`, ["10.33.0.9"]);
  // Times are in whole seconds: the owner's is certainly older.
  await world.advance(1_100);
  await evil.nad("byhand", config);
  await evil.pod("byhand-thief", "node-a", "byhand", {
    "k8s.v1.cni.cncf.io/network-status": JSON.stringify([
      { name: "evil/byhand", interface: "net1", ips: ["10.33.0.8"] },
    ]),
  });
  expect((await admin("import", "--network", "byhand", "--dry-run")).code).toBe(0);
  expect(await leftovers.networkObject("byhand"), "a dry run writes nothing").toBeNull();
  const { code, stdout } = await admin("import", "--network", "byhand", "-o", "json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout).items.map(({ address }: KubeObject) => address)).toEqual(["10.33.0.9/24"]);
  const { spec, status } = (await leftovers.networkObject("byhand")) as KubeObject;
  expect(spec).toMatchObject({ definedIn: NAMESPACE });
  expect(spec.sharedWith ?? [], "nobody used it before it had an owner").toEqual([]);
  expect(status.importedFrom.map(({ definition }: KubeObject) => definition)).toEqual([`${NAMESPACE}/byhand`]);
});
