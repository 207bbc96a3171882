import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { NETWORKS_PATH } from "../../kube/objects.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { closeBridges, PortClient, wantedNow } from "../harness/port-client.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { Tenant } from "../harness/world/tenant.ts";
import { World } from "../harness/world/world.ts";

/* The node's side of 169.254.169.254 in Kubernetes: NADs say which networks have it, pods hear why theirs has not. */

const ROUTE = { dst: "169.254.169.254/32" };
const NADS = "k8s.cni.cncf.io/v1";
const MAC = "02:00:00:00:00:07";

let world: World;

beforeAll(async () => {
  world = await World.start({
    api: "memory",
    time: "machine",
    nodes: ["node-a"],
    node: { process: true, args: ["--metadata-wait-ms", "1000"] },
  });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function listen(decide?: Parameters<typeof PortClient.start>[1]): PortClient {
  const client = PortClient.start(world.node("node-a").daemon, decide);
  onTestFinished(() => client.stop());
  return client;
}

async function editNad(name: string, config: string): Promise<void> {
  const path = pathOf(NAMESPACE, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
  await world.cluster.api.patch(path, { spec: { config } });
}

test("metadata in the NAD gives the guest a route and a port, and is switched off by an edit", async () => {
  const client = listen();
  const network = await world.network("blue", { metadata: true }, { bridge: "br-blue", mtu: 1400 });
  const pod = await world.pod("guest", "node-a", network, { mac: MAC });
  const first = await world.add(pod, network);
  expect(first.json().routes).toEqual([ROUTE]);
  expect(client.wanted).toMatchObject([
    {
      network: "blue",
      interface: "net1",
      addresses: [first.json().ips[0].address.split("/")[0]],
      mac: MAC,
    },
  ]);
  expect((await world.add(pod, network)).stdout).toBe(first.stdout);

  await world.node("node-a").restart("SIGKILL");
  expect((await wantedNow(world.node("node-a").daemon)).ports).toEqual(client.wanted);
  const anew = listen();
  expect((await world.add(pod, network)).stdout).toBe(first.stdout);

  await editNad("blue", configOf("blue", { metadata: false }));
  await anew.untilWanted([]);
  await editNad("blue", network.config);
  await world.until(() => anew.wanted.length === 1, "the port to be wanted again");
  await world.del(pod, network);
  await anew.untilWanted([]);
});

test("an event on the pod says that its interface is not served in time", async () => {
  closeBridges(world.node("node-a").daemon, "br-late");
  const network = await world.network("late", { metadata: true }, { bridge: "br-late" });
  const pod = await world.pod("late", "node-a", network);
  expect((await world.add(pod, network)).json().routes).toEqual([ROUTE]);
  expect(await world.untilEvent(pod, "MetadataNotReady")).toContain("not served within 1000 ms");
  await world.del(pod, network);
});

test("a pod is refused, and says why, where nothing keeps it from the node's own metadata", async () => {
  closeBridges(world.node("node-a").daemon, "br-late");
  const network = await world.network("open", { metadata: true }, { bridge: "br-open" });
  const pod = await world.pod("open", "node-a", network);
  const refused = await world.add(pod, network);
  expect(refused.json()).toMatchObject({ code: 11, msg: expect.stringContaining("guests behind br-open") });
  await world.del(pod, network);
});

test("an event on the pod says why its interface cannot be served", async () => {
  const problem = "net1 is a macvlan: it has no end on this node";
  listen(({ network }) => (network === "mac" ? { kind: "final", problem } : null));
  const network = await world.network("mac", { metadata: true }, { type: "macvlan" });
  const pod = await world.pod("mac", "node-a", network);
  await world.given(pod, network);
  expect(await world.untilEvent(pod, "MetadataRefused")).toContain(problem);
  await world.del(pod, network);
});

test("an IPv6-only guest gets a port and no route", async () => {
  const client = listen();
  const six = await world.network("six", { metadata: true, subnets: "fd00::/64" });
  const pod = await world.pod("six", "node-a", six);
  expect((await world.add(pod, six)).json()).not.toHaveProperty("routes");
  expect(client.wanted).toMatchObject([{ network: "six", addresses: [expect.stringMatching(/^fd00::/)] }]);
  await world.del(pod, six);
});

test("a namespace that shares a network may attach through another bridge, and its guest gets a port of its own", async () => {
  const client = listen();
  const config = configOf("lent", { metadata: true }, { bridge: "br-lent" });
  const network = { name: "lent", config };
  await world.cluster.api.create(NETWORKS_PATH, {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPNetwork",
    metadata: { name: "lent" },
    spec: { network: "lent", definedIn: NAMESPACE },
  });
  await world.kubevirt.createNad(NAMESPACE, "lent", config);
  await world.cluster.api.patch(pathOf(NAMESPACE, "network-attachment-definitions", "lent", NADS), {
    metadata: { annotations: { "ipam.holdfast.dev/shared-with": "guests" } },
  });
  const tenant = await Tenant.create(world.cluster, "guests");
  onTestFinished(() => tenant.close());
  const elsewhere = configOf("lent", { metadata: true }, { bridge: "br-mine" });
  await tenant.nad("lent", elsewhere);
  const guest = await tenant.pod("first", "node-a", "lent");
  let answer = await world.add(guest, network, { config: elsewhere });
  await world.until(async () => {
    if (answer.code === 0) return true;
    answer = await world.add(guest, network, { config: elsewhere });
    return answer.code === 0;
  }, "the share to be seen");
  expect(answer.json().routes).toEqual([ROUTE]);
  const pod = await world.pod("owner", "node-a", network);
  await world.given(pod, network);
  expect(client.wanted.filter((one) => one.network === "lent")).toHaveLength(2);
  await world.del(pod, network);
  await world.del(guest, network);
});

test("metadata that is switched on later serves who is attached already, whatever address that is", async () => {
  const client = listen();
  const before = await world.network("held");
  const old = await world.pod("old", "node-a", before, { ips: ["10.0.0.254"] });
  expect(await world.given(old, before)).toEqual(["10.0.0.254/24"]);
  const network = { name: "held", config: configOf("held", { metadata: true }) };
  await editNad("held", network.config);
  await world.until(() => client.wanted.some((one) => one.network === "held"), "the node to see the edit");
  const pod = await world.pod("new", "node-a", network);
  expect((await world.add(pod, network)).json().routes).toEqual([ROUTE]);
  expect(client.wanted.filter((one) => one.network === "held")).toMatchObject([
    { addresses: ["10.0.0.254"] },
    { interface: "net1" },
  ]);
  await world.del(old, network);
  await world.del(pod, network);
});

test("a node that has metadata by default gives it to networks whose definition does not say, and to no others", async () => {
  const node = await world.startNode("node-default", {
    args: ["--metadata-wait-ms", "1000", "--metadata-default", "on"],
  });
  const client = PortClient.start(node.daemon);
  onTestFinished(() => client.stop());
  const silent = await world.network("silent");
  const pod = await world.pod("silent", "node-default", silent);
  expect((await world.add(pod, silent)).json().routes).toEqual([ROUTE]);
  expect(client.wanted).toMatchObject([{ network: "silent", interface: "net1" }]);
  const refusing = await world.network("refusing", { metadata: false });
  const other = await world.pod("refusing", "node-default", refusing);
  expect((await world.add(other, refusing)).json()).not.toHaveProperty("routes");
  // The same network on a node without the default.
  const elsewhere = await world.pod("silent-elsewhere", "node-a", silent);
  expect((await world.add(elsewhere, silent)).json()).not.toHaveProperty("routes");
  expect(client.wanted).toHaveLength(1);
});
