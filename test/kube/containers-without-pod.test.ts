/**
 * Containers of a cluster's node that no pod stands behind (cnitool, podman): what ends them, and what is no evidence.
 */
import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { command } from "../faults/standalone-node.ts";
import { requireRoot } from "../harness/needs.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", time: "machine", node: { process: true } });
});
afterAll(async () => {
  await world?.stop();
});

function makeNetns(name: string): { path: string; remove: () => void } {
  const remove = () => command("ip", "netns", "delete", name);
  command("ip", "netns", "add", name);
  return { path: `/run/netns/${name}`, remove };
}

async function add({ daemon }: NodeDaemon, net: Network, id: string, netns: string): Promise<string[]> {
  const answer = await daemon.cni("ADD", id, { config: net.config, ifname: "net1", netns });
  expect(answer.code, answer.stdout + daemon.log).toBe(0);
  return ipsOf(answer);
}

/** GC of a runtime that lists none of the containers. */
async function collect({ daemon }: NodeDaemon, net: Network): Promise<void> {
  const config = { ...JSON.parse(net.config), cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
  const answer = await daemon.cni("GC", "", { config, ifname: "", netns: "" });
  expect(answer.code, answer.stdout).toBe(0);
}

const addresses = async (net: Network) => (await world.bound(net)).map((one) => one.split(" ")[0]);

test("a container without a pod is ended when its network namespace is gone, and not by another runtime's GC", async (context) => {
  requireRoot(context);
  const net = await world.network("witnessed", { subnets: "10.81.0.0/24" });
  const args = ["--witness-interval-seconds", "1", "--witness-grace-seconds", "1"];
  const node = await world.startNode("node-witness", { args });
  const [lives, dies] = [`holdfast-test-${process.pid}-lives`, `holdfast-test-${process.pid}-dies`].map(makeNetns) as [
    ReturnType<typeof makeNetns>,
    ReturnType<typeof makeNetns>,
  ];
  onTestFinished(() => lives.remove());
  const [living] = await add(node, net, "lives", lives.path);
  await add(node, net, "dies", dies.path);
  await collect(node, net);
  expect(node.log).not.toContain("ended by GC");
  dies.remove();
  await until(async () => (await addresses(net)).length === 1, "the witness");
  expect(await addresses(net)).toEqual([living]);
});

test("after the loss of the journal another runtime's GC does not end a container that may run", async () => {
  const net = await world.network("unlisted", { subnets: "10.82.0.0/24" });
  const node = await world.startNode("node-unlisted");
  const ips = await add(node, net, "runs", "/run/netns/holdfast-test-of-the-other-runtime");
  await node.daemon.end("SIGKILL");
  rmSync(node.daemon.state, { recursive: true, force: true });
  await node.restart();
  await collect(node, net);
  expect(node.log).not.toContain("ended by GC");
  expect(await addresses(net)).toEqual(ips);
  const del = await node.daemon.cni("DEL", "runs", { config: net.config, ifname: "net1" });
  expect(del.code, del.stdout).toBe(0);
  await until(async () => (await addresses(net)).length === 0, "its DEL");
});
