import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { PortClient, wantedNow } from "../harness/port-client.ts";
import { until } from "../harness/wait.ts";
import { configOf, ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/*
 * Guests that an earlier release attached have their route to 169.254.169.254 by an address that their network reserved.
 * They keep it when they migrate, and whatever becomes of the definition.
 */

const GATEWAY = "10.10.0.6";
const TINY = { subnets: "10.10.0.0/29", cooldownSeconds: 0 };
const ROUTE = { dst: "169.254.169.254/32", gw: GATEWAY };

let world: World;
const clients: PortClient[] = [];

beforeAll(async () => {
  world = await World.start({ api: "memory", node: { args: ["--metadata-wait-ms", "1000"] } });
});
afterEach(async () => {
  await world.settled();
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.stop()));
  await world?.stop();
});

async function start(name: string): Promise<void> {
  await world.startNode(name);
  clients.push(PortClient.start(world.node(name).daemon));
}

/** As a daemon of that release leaves the attachments of a network: it does not say how they reach the service. */
async function makeFormer(network: Network): Promise<void> {
  for (const { metadata, status } of await world.allocations(network)) {
    const attachments = Object.keys(status.attachments).map((key) => [key, { metadataBy: null }]);
    await world.cluster.api.patch(`${ALLOCATIONS_PATH}/${metadata.name}`, {
      status: { attachments: Object.fromEntries(attachments) },
    });
  }
}

async function entries(network: Network): Promise<KubeObject[]> {
  return (await world.allocations(network)).flatMap(({ status }) => Object.values(status.attachments ?? {}));
}

/** Once a node has seen an edit of the definition. */
async function untilReserved(node: string, network: string, reserved: string): Promise<void> {
  await until(async () => {
    const { items } = (await world.node(node).daemon.get("/v1/networks")).json();
    const found = items.find((one: { name: string }) => one.name === network);
    return found?.metadata?.reserved === reserved;
  }, `${node} to see ${reserved} reserved`);
}

test("a migrated guest keeps its route, its port answers for it, and nobody gets the address before both have ended", async () => {
  await start("node-a");
  const blue = await world.network("blue", { ...TINY, metadata: true });
  const source = await world.vmGuest(blue, "node-a");
  // Any address but the one that the earlier release would reserve.
  const ips = await world.given(source.pod, blue, { ...source.options, moreArgs: ";IP=10.10.0.2" });
  await makeFormer(blue);
  // What a node knows of others it has read since.
  await start("node-b");
  await untilReserved("node-b", "blue", GATEWAY);

  const target = await world.target(source, "node-b");
  const answer = await world.add(target.pod, blue, target.options);
  expect(ipsOf(answer)).toEqual(ips);
  expect(answer.json().routes).toEqual([ROUTE]);
  const wanted = async () => (await wantedNow(world.node("node-b").daemon)).ports;
  expect(await wanted()).toMatchObject([{ addresses: [ips[0]?.split("/")[0]], formerGateways: [GATEWAY] }]);
  expect((await world.add(target.pod, blue, target.options)).stdout).toBe(answer.stdout);
  const ofTarget = async () => (await entries(blue)).find(({ node }) => node === "node-b");
  await until(async () => (await ofTarget())?.metadataVia === GATEWAY, "the gateway to be written");
  expect(await ofTarget()).not.toHaveProperty("metadataBy");

  const asks = await world.pod("asks", "node-b", blue, { ips: [GATEWAY] });
  await world.refused(asks, blue, 122);
  await world.del(source.pod, blue, source.options);
  await world.kubevirt.removePod(source.pod);
  await world.refused(asks, blue, 122);
  expect(await wanted()).toMatchObject([{ formerGateways: [GATEWAY] }]);

  // The definition names another one: this guest's stays what it is, for nodes that have never had such a guest, too.
  const edited = { name: "blue", config: configOf("blue", { ...TINY, metadata: { address: "10.10.0.3" } }) };
  await world.editNad("blue", edited.config);
  await start("node-c");
  const far = await world.pod("far", "node-c", edited, { ips: [GATEWAY] });
  await world.refused(far, edited, 122);
  await untilReserved("node-b", "blue", "10.10.0.3");
  await world.refused(asks, edited, 122);
  expect(await wanted()).toMatchObject([{ formerGateways: [GATEWAY] }]);

  await world.del(target.pod, edited, target.options);
  await until(async () => (await world.add(asks, edited)).code === 0, "the address to be given");
  await world.del(asks, edited);
  // A definition that names one is remarked on where no such guest runs.
  await world.editNad("blue", blue.config);
});

test("a guest that was attached by this release migrates without such a route", async () => {
  const red = await world.network("red", { ...TINY, subnets: "10.20.0.0/29", metadata: true });
  const source = await world.vmGuest(red, "node-a");
  await world.given(source.pod, red, source.options);
  const target = await world.target(source, "node-b");
  const answer = await world.add(target.pod, red, target.options);
  expect(answer.json().routes).toEqual([{ dst: "169.254.169.254/32" }]);
  expect(await entries(red)).toMatchObject([{ metadataBy: "port" }, { metadataBy: "port" }]);
  await world.del(source.pod, red, source.options);
  await world.del(target.pod, red, target.options);
});
