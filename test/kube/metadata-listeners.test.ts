import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { NETWORKS_PATH } from "../../kube/objects.ts";
import { until } from "../harness/daemon.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { ListenerClient, wantedNow } from "../harness/listener-client.ts";
import { NAMESPACE, Scenario } from "./scenario.ts";
import { configOf } from "./scenario-parts.ts";
import { Tenant } from "./tenant.ts";

/* The node's side of 169.254.169.254 in Kubernetes: NADs say which networks have it, pods hear why theirs has not. */

const ROUTE = { dst: "169.254.169.254/32", gw: "10.0.0.254" };
const NADS = "k8s.cni.cncf.io/v1";
const MAC = "02:00:00:00:00:07";

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({ nodes: ["node-a"], node: { args: ["--metadata-wait-ms", "1000"] } });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

function listen(): ListenerClient {
  const client = ListenerClient.start(scene.node("node-a").daemon);
  onTestFinished(() => client.stop());
  return client;
}

async function editNad(name: string, config: string): Promise<void> {
  const path = pathOf(NAMESPACE, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
  await scene.cluster.api.patch(path, { spec: { config } });
}

test("the NAD switches it on: route, listener with the MAC of the selection element, off again", async () => {
  const client = listen();
  const network = await scene.network("blue", { metadata: true }, { bridge: "br-blue" });
  const pod = await scene.pod("guest", "node-a", network, { mac: MAC });
  const first = await scene.add(pod, network);
  expect(first.json().routes).toEqual([ROUTE]);
  expect(client.wanted).toMatchObject([
    {
      network: "blue",
      bridge: "br-blue",
      address: "10.0.0.254/24",
      attachments: [{ interface: "net1", addresses: [first.json().ips[0].address.split("/")[0]], mac: MAC }],
    },
  ]);
  expect((await scene.add(pod, network)).stdout).toBe(first.stdout);

  await scene.node("node-a").restart("SIGKILL");
  expect((await wantedNow(scene.node("node-a").daemon)).networks).toEqual(client.wanted);
  const anew = listen();
  expect((await scene.add(pod, network)).stdout).toBe(first.stdout);

  await editNad("blue", configOf("blue", { metadata: false }));
  await anew.untilWanted([]);
  await editNad("blue", network.config);
  await until(() => anew.wanted.length === 1, "the listener to be wanted again");
  await scene.del(pod, network);
  await anew.untilWanted([]);
});

test("a pod hears that its listener is not up", async () => {
  const network = await scene.network("late", { metadata: true });
  const pod = await scene.pod("late", "node-a", network);
  expect((await scene.add(pod, network)).json().routes).toEqual([ROUTE]);
  expect(await scene.untilEvent(pod, "MetadataNotReady")).toContain("not up within 1000 ms");
  await scene.del(pod, network);
});

test("a pod hears that its network's plugin cannot have it", async () => {
  const network = await scene.network("mac", { metadata: true }, { type: "macvlan" });
  const pod = await scene.pod("mac", "node-a", network);
  expect((await scene.add(pod, network)).json()).not.toHaveProperty("routes");
  expect(await scene.untilEvent(pod, "MetadataRefused")).toContain('the plugin is "macvlan"');
  const six = await scene.network("six", { metadata: true, subnets: "fd00::/64" });
  const other = await scene.pod("six", "node-a", six);
  await scene.given(other, six);
  expect(await scene.untilEvent(other, "MetadataRefused")).toContain("no IPv4 subnet");
});

test("who shares a network does not move its listener to another bridge, though it attaches first", async () => {
  const client = listen();
  const config = configOf("lent", { metadata: true }, { bridge: "br-lent" });
  const network = { name: "lent", config };
  await scene.cluster.api.create(NETWORKS_PATH, {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPNetwork",
    metadata: { name: "lent" },
    spec: { network: "lent", definedIn: NAMESPACE },
  });
  await scene.kubevirt.createNad(NAMESPACE, "lent", config);
  await scene.cluster.api.patch(pathOf(NAMESPACE, "network-attachment-definitions", "lent", NADS), {
    metadata: { annotations: { "ipam.holdfast.dev/shared-with": "guests" } },
  });
  const tenant = await Tenant.create(scene.cluster, "guests");
  onTestFinished(() => tenant.close());
  const elsewhere = configOf("lent", { metadata: true }, { bridge: "br-mine" });
  await tenant.nad("lent", elsewhere);
  const guest = await tenant.pod("first", "node-a", "lent");
  for (const attempt of ["first", "repeated"]) {
    let answer = await scene.add(guest, network, { config: elsewhere });
    await until(async () => {
      if (answer.code === 0) return true;
      answer = await scene.add(guest, network, { config: elsewhere });
      return answer.code === 0;
    }, "the share to be seen");
    expect(answer.json(), attempt).not.toHaveProperty("routes");
  }
  expect(await scene.untilEvent(guest, "MetadataRefused")).toContain(
    "this interface is on br-mine, and the network's owner has it on br-lent",
  );
  expect(client.wanted.filter((one) => one.network === "lent")).toEqual([]);
  const pod = await scene.pod("owner", "node-a", network);
  expect((await scene.add(pod, network)).json().routes).toEqual([ROUTE]);
  await until(() => client.wanted.some((one) => one.network === "lent"), "the listener");
  expect(client.wanted.find((one) => one.network === "lent")).toMatchObject({ bridge: "br-lent" });
  await scene.del(pod, network);
  await scene.del(guest, network);
});

test("a pod hears who holds the reserved address from before", async () => {
  const client = listen();
  const before = await scene.network("held");
  const old = await scene.pod("old", "node-a", before, { ips: ["10.0.0.254"] });
  expect(await scene.given(old, before)).toEqual(["10.0.0.254/24"]);
  const network = { name: "held", config: configOf("held", { metadata: true }) };
  await editNad("held", network.config);
  await until(async () => {
    const { stdout } = await scene.node("node-a").daemon.cli("networks", "-o", "json");
    return stdout.includes("10.0.0.254/24");
  }, "the node to see the edit");
  const pod = await scene.pod("new", "node-a", network);
  expect((await scene.add(pod, network)).json()).not.toHaveProperty("routes");
  expect(await scene.untilEvent(pod, "MetadataRefused")).toContain(
    `10.0.0.254 is held by pod ${NAMESPACE}/old (net1)`,
  );
  expect(client.wanted.filter((one) => one.network === "held")).toEqual([]);
  await scene.del(old, network);
  await scene.del(pod, network);
});
