/**
 * A workload with a fixed address is replaced: its successor asks for the address by name and does not wait for a
 * cool-down.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { deleted, type Guest } from "../harness/world/guests.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  await world.startController();
  for (const name of ["node-a", "node-b"]) await world.startNode(name);
});
afterAll(async () => {
  await world?.stop();
});

const IPAM = { subnets: "10.76.0.0/24,fd76::/64", cooldownSeconds: 3_600 };
const IPS = ["10.76.0.77", "fd76::77"];

function asking(net: Network, node: string, name: string): Promise<Guest> {
  return world.guest(net, node, name, { networks: [{ name: net.name, ips: IPS }] });
}

/** As the kubelet does: every refusal is tried again after a second, for ten seconds. */
async function addedSoon({ pod, options }: Guest): Promise<string[]> {
  const node = world.node(pod.spec.nodeName);
  for (let attempt = 1; ; attempt += 1) {
    const answer = await node.add(pod, options);
    if (answer.code === 0 || attempt === 10) return answer.code === 0 ? ipsOf(answer) : [answer.stdout];
    await world.advance(1_000);
  }
}

const GIVEN = ["10.76.0.77/24", "fd76::77/64"];

test.for([
  ["StatefulSet of one, on the same node", "node-a"],
  ["Deployment that is recreated, on another node", "node-b"],
] as const)("the successor in a %s gets the address at once", async ([title, second]) => {
  const net = await world.network(`fixed-${title.slice(0, 4).toLowerCase()}`, IPAM);
  const former = await asking(net, "node-a", `${net.name}-0`);
  expect(await addedSoon(former)).toEqual(GIVEN);
  await deleted(world.node("node-a"), former);
  await world.kubevirt.removePod(former.pod);
  const successor = await asking(net, second, `${net.name}-0`);
  expect(await addedSoon(successor)).toEqual(GIVEN);
  await deleted(world.node(second), successor);
});

test("a pod that may still run keeps its address, whoever asks for it by name", async () => {
  const net = await world.network("fixed-running", IPAM);
  const former = await asking(net, "node-a", "runs");
  expect(await addedSoon(former)).toEqual(GIVEN);
  // Deleted by force: its object is gone, its container is not known to have ended.
  await world.kubevirt.removePod(former.pod);
  const successor = await asking(net, "node-b", "asks");
  expect((await addedSoon(successor))[0]).toContain("is held by");
  await deleted(world.node("node-a"), former);
  expect(await addedSoon(successor)).toEqual(GIVEN);
  await deleted(world.node("node-b"), successor);
});

test("an address that its node's deletion took away cools down", async () => {
  const net = await world.network("fixed-isolated", IPAM);
  await world.startNode("node-c");
  const former = await asking(net, "node-c", "isolated");
  expect(await addedSoon(former)).toEqual(GIVEN);
  await world.node("node-c").stop();
  await world.kubevirt.removePod(former.pod);
  await world.kubevirt.deleteNode("node-c");
  await world.until(async () => (await world.bound(net)).length === 0, "the controller's release");
  const successor = await asking(net, "node-a", "waits");
  expect((await addedSoon(successor))[0]).toContain("still cooling down");
});
