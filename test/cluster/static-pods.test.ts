/** Static pods: the kubelet runs them, and their object in the API comes and goes. One identity, the kubelet's own. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { mirrorOf } from "../harness/kube-pods.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { added, deleted, type Guest } from "../harness/world/guests.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const HASH = "5f0c1e0bd3a94c4e8d2a1b7c6e9f0a12";

let world: World;
let node: NodeDaemon;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  await world.startController({ podGoneReleaseSeconds: 1 });
  node = await world.startNode("node-a", {
    args: ["--witness-interval-seconds", "1", "--witness-grace-seconds", "1"],
  });
});
afterAll(async () => {
  await world?.stop();
});

/** The mirror pod in the API, as the runtime knows the pod behind it. */
async function mirror(net: Network): Promise<{ guest: Guest; asRuntime: Guest }> {
  const guest = await world.guest(net, node.name, "static-node-a", mirrorOf(HASH, node.name));
  const metadata = { ...guest.pod.metadata, uid: HASH };
  return { guest, asRuntime: { ...guest, pod: { ...guest.pod, metadata } } };
}

test("deleting a static pod's mirror pod releases nothing, and all its sandboxes have the same address", async () => {
  const net = await world.network("static", { subnets: "10.75.0.0/24", cooldownSeconds: 0 });
  const { guest, asRuntime } = await mirror(net);
  const ips = await added(node, asRuntime, { containerId: "one" });
  const held = [`${ips[0]} ${HASH}`];
  expect(await world.bound(net)).toEqual(held);
  await world.kubevirt.reportReady(node.name, "Unknown");
  // The API server forgets the mirror; the containers run on. Several graces of the controller and looks of the
  // witness.
  await world.kubevirt.removePod(guest.pod);
  await world.advance(6_000);
  expect(await world.bound(net)).toEqual(held);
  const again = await mirror(net);
  expect(again.guest.pod.metadata.uid).not.toBe(guest.pod.metadata.uid);
  expect(await added(node, again.asRuntime, { containerId: "one" })).toEqual(ips);
  expect(await added(node, again.asRuntime, { containerId: "two" })).toEqual(ips);
  await deleted(node, again.asRuntime, { containerId: "one" });
  expect(await world.bound(net)).toEqual(held);
  await deleted(node, again.asRuntime, { containerId: "two" });
  await world.settledWith(net, []);
});
