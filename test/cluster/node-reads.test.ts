/** What a node reads follows what it uses, not what the cluster holds. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { ListedPage } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { added, deleted, type Guest } from "../harness/world/guests.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { World } from "../harness/world/world.ts";

const OTHERS = 500;

let world: World;
let cluster: MemoryCluster;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  cluster = world.cluster as MemoryCluster;
  await world.startController();
  await world.network("others", { subnets: "10.66.0.0/16" });
  for (let at = 1; at <= OTHERS; at += 1) await strange("others", `10.66.${at >> 8}.${at & 255}/16`);
});
afterAll(() => world?.stop());

/** An allocation of a node that is not here. */
async function strange(network: string, address: string): Promise<void> {
  const pod = { namespace: "elsewhere", name: "pod", uid: `pod-${address}` };
  const attachment = { containerID: `c-${address}`, interface: "net1", node: "elsewhere", pod, since: "t" };
  const owner = { kind: "Pod", ...pod, interface: "net1" } as const;
  const object = newAllocation(network, parseInterfaceAddress(address), { owner, attachment }, "t");
  await cluster.api.create(ALLOCATIONS_PATH, object);
}

/** Everything but its own pods and the definitions. */
function bigLists(node: string, from = 0): ListedPage[] {
  return cluster
    .lists(node)
    .slice(from)
    .filter(({ resource, selector }) => selector === "none" && /pods|ipallocations|ipamclaims/.test(resource));
}

test("a daemon starts, serves, restarts and gets over a gap in contact without a list of what the cluster holds", async () => {
  const net = await world.network("blue", { subnets: "10.67.0.0/24" });
  await world.advance(10_000);
  const node = await world.startNode("node-a");
  const first = await added(node, await world.guest(net, node.name));
  const vm = await world.vmGuest(net, node.name);
  await added(node, vm);
  await node.restart();
  await added(node, await world.guest(net, node.name));
  await world.advance(350_000);
  expect(first).toHaveLength(1);
  expect(bigLists(node.name)).toEqual([]);
  // Who has an address is one read by name.
  const { items } = await node.daemon.get("/v1/allocations?address=10.66.0.7").then((answer) => answer.json());
  expect(items).toMatchObject([{ network: "others", address: "10.66.0.7/16" }]);
  // Once, when its journal was new: what it uses itself.
  const ofAllocations = cluster.lists(node.name).filter(({ resource }) => resource === "ipallocations");
  expect(ofAllocations).toMatchObject([{ selector: "label", source: "cache", objects: 0 }]);
});

test("a full network is told from what is published, and an address that is free by then is given", async () => {
  const net = await world.network("tight", { subnets: "10.68.0.0/29", cooldownSeconds: 600 });
  const other = await world.startNode("node-c");
  const guests = [];
  for (let count = 0; count < 6; count += 1) guests.push(await world.guest(net, other.name));
  const given = [];
  for (const one of guests) given.push(...(await added(other, one)));
  const node = await world.startNode("node-b");
  await world.advance(10_000);
  const from = cluster.lists(node.name).length;
  const guest = await world.guest(net, node.name);
  for (let times = 0; times < 5; times += 1) {
    const answer = await node.add(guest.pod, guest.options);
    expect(answer.json().msg, answer.stdout).toContain("no free address in 10.68.0.0/29");
    await world.advance(15_000);
  }
  const since = cluster.lists(node.name).slice(from);
  expect(since.filter(({ resource }) => resource === "ipallocations")).toEqual([]);
  await deleted(other, guests[2] as Guest);
  await world.advance(10_000);
  // It cools down, and nothing else is left.
  expect(await added(node, guest)).toEqual([given[2]]);
});
