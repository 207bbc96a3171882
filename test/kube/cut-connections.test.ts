/** Connections to the API server are cut, as load balancers do: what tells that from a server that was away and restored. */
import { afterEach, expect, test } from "vitest";
import type { ApiProxy, ProxyRequest } from "../harness/api-proxy.ts";
import type { ClusterOptions } from "../harness/cluster.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { added, addedInTheEnd, checked, type Guest } from "../harness/world/guests.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World, type WorldOptions } from "../harness/world/world.ts";

const CUT = "only a connection was cut";
const AWAY = "the API server may have been away";
const ARGS = ["--recovery-seconds", "4"];
/** Longer than the daemon asks, ms. */
const VERDICT_MS = 10_000;

let world: World;

afterEach(async () => {
  await world?.stop();
});

async function start(api: WorldOptions["api"], cluster: ClusterOptions = {}) {
  world = await World.start({ api, time: "machine", cluster });
  const net = await world.network("blue", { subnets: "10.90.0.0/24" });
  const { node, proxy } = await world.startProxiedNode("node-a", { args: ARGS });
  return { net, node, proxy };
}

const count = (node: NodeDaemon, text: string) => node.log.split(text).length - 1;
const verdicts = (node: NodeDaemon) => count(node, CUT) + count(node, AWAY);
const isCreate = ({ method, path }: ProxyRequest) => method === "POST" && path.includes("/ipallocations");

/** Something happens to a pod of the node, as it does after every ADD: its watch brings it. */
async function touch({ pod }: Guest): Promise<void> {
  const path = pathOf(NAMESPACE, "pods", pod.metadata.name);
  await world.cluster.api.patch(path, { metadata: { annotations: { touched: `${Math.random()}` } } });
}

/** Cuts until the node had something by which it could tell; what it says then. */
async function cutAndJudged(node: NodeDaemon, proxy: ApiProxy, guest: Guest): Promise<void> {
  const before = verdicts(node);
  const judged = () => verdicts(node) > before;
  await until(async () => {
    await touch(guest);
    const touches = count(node, "/api/v1/pods: in touch again");
    proxy.cutConnections();
    await until(() => count(node, "/api/v1/pods: in touch again") > touches, "the watch");
    await until(judged, "a verdict", VERDICT_MS).catch(() => {});
    return judged();
  }, "a cut that can be judged");
}

test("after a cut connection to a running API server ADDs continue without waiting", async () => {
  const { net, node, proxy } = await start("memory");
  const first = await world.guest(net, node.name);
  await added(node, first);
  await cutAndJudged(node, proxy, first);
  const second = await world.guest(net, node.name);
  await added(node, second);
  await cutAndJudged(node, proxy, second);

  // In the middle of an ADD: its own connection is cut, and the watch's.
  const third = await world.guest(net, node.name);
  proxy.rule({ when: isCreate, times: 1, act: "hang" });
  proxy.log.length = 0;
  const adding = added(node, third);
  await until(() => proxy.log.some(isCreate), "the ADD to be under way");
  proxy.cutConnections();
  await adding;
  // The cut's own verdict comes after the answer, if the node had something by which it could tell.
  await cutAndJudged(node, proxy, third);
  expect(count(node, CUT)).toBeGreaterThanOrEqual(3);
  expect(count(node, AWAY)).toBe(0);
  await checked(node);
});

test("a restore that lost only another node's address gives no address twice", async () => {
  const { net, node, proxy } = await start("server");
  const other = await world.startNode("node-b", { args: ARGS });
  const known = await world.guest(net, node.name);
  const knownIps = await added(node, known);
  await cutAndJudged(node, proxy, known);
  expect(count(node, AWAY)).toBe(0);
  const [theirs, next] = [await world.guest(net, other.name), await world.guest(net, node.name)];
  const saved = await world.server.saveEtcd();
  const theirIps = await added(other, theirs);
  const cuts = count(node, CUT);
  await world.server.restoreEtcd(saved);
  const nextIps = await addedInTheEnd(node, next);
  expect(new Set([...knownIps, ...theirIps, ...nextIps]).size).toBe(3);
  expect(count(node, CUT)).toBe(cuts);
  await checked(node);
});

test("with an API server without a watch cache a cut connection counts as an outage", async () => {
  const { net, node, proxy } = await start("server", { apiServerArgs: ["--watch-cache=false"] });
  const pod = await world.guest(net, node.name);
  await added(node, pod);
  await cutAndJudged(node, proxy, pod);
  expect(count(node, CUT)).toBe(0);
  await addedInTheEnd(node, await world.guest(net, node.name));
});
