/**
 * Connections to the API server are cut, as load balancers do: nothing tells that from a server that was away and
 * restored.
 */
import { afterEach, expect, test } from "vitest";
import type { ApiProxy, ProxyRequest } from "../harness/api-proxy.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { added, addedInTheEnd, checked } from "../harness/world/guests.ts";
import { World, type WorldOptions } from "../harness/world/world.ts";

const ARGS = ["--recovery-seconds", "4"];

let world: World;

afterEach(async () => {
  await world?.stop();
});

async function start(api: WorldOptions["api"]) {
  world = await World.start({ api, time: "machine" });
  const net = await world.network("blue", { subnets: "10.90.0.0/24" });
  const { node, proxy } = await world.startProxiedNode("node-a", { args: ARGS });
  return { net, node, proxy };
}

const isCreate = ({ method, path }: ProxyRequest) => method === "POST" && path.includes("/ipallocations");
const returns = (node: NodeDaemon) => node.log.split("/api/v1/pods: in touch again").length - 1;

async function cutConnections(node: NodeDaemon, proxy: ApiProxy): Promise<void> {
  const before = returns(node);
  proxy.cutConnections();
  await until(() => returns(node) > before, "the watch");
}

test("after a cut connection to a running API server the next ADD is served once the nodes have had time to compare", async () => {
  const { net, node, proxy } = await start("memory");
  await added(node, await world.guest(net, node.name));
  await cutConnections(node, proxy);
  await added(node, await world.guest(net, node.name));

  // In the middle of an ADD: its own connection is cut, and the watch's.
  const third = await world.guest(net, node.name);
  proxy.rule({ when: isCreate, times: 1, act: "hang" });
  proxy.log.length = 0;
  const adding = addedInTheEnd(node, third);
  await until(() => proxy.log.some(isCreate), "the ADD to be under way");
  await cutConnections(node, proxy);
  await adding;
  await checked(node);
});

test("a restore that lost only another node's address gives no address twice", async () => {
  const { net, node, proxy } = await start("server");
  const other = await world.startNode("node-b", { args: ARGS });
  const known = await world.guest(net, node.name);
  const knownIps = await added(node, known);
  await cutConnections(node, proxy);
  const [theirs, next] = [await world.guest(net, other.name), await world.guest(net, node.name)];
  const saved = await world.server.saveEtcd();
  const theirIps = await added(other, theirs);
  await world.server.restoreEtcd(saved);
  const nextIps = await addedInTheEnd(node, next);
  expect(new Set([...knownIps, ...theirIps, ...nextIps]).size).toBe(3);
  await checked(node);
});
