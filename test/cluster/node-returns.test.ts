/** A node whose Node object was deleted while it was away comes back with its containers. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { NETWORKS_PATH, objectPath } from "../../kube/objects.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import { added } from "../harness/world/guests.ts";
import { World } from "../harness/world/world.ts";

let world: World;
beforeAll(async () => {
  world = await World.start({ api: "memory", controller: {} });
});
afterAll(() => world?.stop());

test("other nodes go on giving addresses of its networks, and it puts back what nobody has got since", async () => {
  const net = await world.network("returned", { subnets: "10.64.0.0/28", cooldownSeconds: 0 });
  const [here, away] = [await world.startNode("here"), await world.startNode("away")];
  const guests = [await world.guest(net, away.name), await world.guest(net, away.name)];
  const ips: string[] = [];
  for (const guest of guests) ips.push(...(await added(away, guest)));
  // Its containers run on, and nobody hears of them.
  await away.daemon.end("SIGTERM");
  for (const { pod } of guests) await world.kubevirt.removePod(pod);
  await world.kubevirt.deleteNode(away.name);
  await world.until(async () => (await world.bound(net)).length === 0, "the release of what it had");
  await world.advance(1_000);
  await world.kubevirt.createNode(away.name);
  await away.restart();
  await world.until(async () => (await world.bound(net)).length === 2, "what its containers use");
  expect((await world.bound(net)).map((one) => one.split(" ")[0])).toEqual(ips.toSorted());
  expect(recoveryMark(await world.cluster.api.get(objectPath(NETWORKS_PATH, net.name)))).toBeNull();
  const next = await added(here, await world.guest(net, here.name));
  expect(ips).not.toContain(next[0]);
  expect(away.log).toContain("Node object was deleted");
});
