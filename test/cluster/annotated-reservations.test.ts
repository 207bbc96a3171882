/** Reservations by MAC on an IPNetwork: the rules of a configuration's, for lists that fit no configuration. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const ANNOTATION = "ipam.holdfast.dev/reservations";
/** More than a node caches an IPNetwork. */
const BELIEVED_MS = 5_100;

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], admission: true, controller: {} });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const pathOf = ({ name }: Network) => `/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/${name}`;

/** Writes the list onto the network's IPNetwork, and waits until every node reads it again. */
async function reserve(network: Network, list: readonly object[]): Promise<void> {
  const annotations = { [ANNOTATION]: JSON.stringify(list) };
  await world.cluster.api.patch(pathOf(network), { metadata: { annotations } });
  await world.advance(BELIEVED_MS);
}

let count = 0;
const withMac = (network: Network, mac: string, node = "node-a") => {
  count += 1;
  return world.pod(`p${count}`, node, network, { mac });
};

test("who comes with the MAC gets it, on every node; nobody else does, and a request is refused", async () => {
  const network = await world.network("listed", { subnets: "10.1.0.0/29" });
  const mac = "02:00:00:00:01:01";
  const first = await world.pod("first", "node-a", network);
  await world.given(first, network);
  await reserve(network, [{ mac, ips: ["10.1.0.5"] }]);
  for (const node of ["node-a", "node-b"]) {
    const pod = await withMac(network, mac, node);
    expect(await world.given(pod, network)).toEqual(["10.1.0.5/29"]);
    await world.del(pod, network);
  }
  const thief = await world.pod("thief", "node-b", network, { ips: ["10.1.0.5"] });
  expect(await world.refused(thief, network, 132)).toContain(`10.1.0.5 of network listed is reserved for ${mac}`);
  const others: string[] = [];
  for (const at of [0, 1, 2, 3])
    others.push(...(await world.given(await world.pod(`other${at}`, "node-a", network), network)));
  expect(others).not.toContain("10.1.0.5/29");
  await world.refused(await world.pod("late", "node-b", network), network, 11);
  expect(await world.given(await withMac(network, mac), network)).toEqual(["10.1.0.5/29"]);
});

test("a list that cannot be read gives nothing, and says which entry; what is given stays; mended, it goes on", async () => {
  const network = await world.network("misread", {
    subnets: "10.2.0.0/24",
    reservations: [{ mac: "02:00:00:00:02:01", ips: ["10.2.0.9"] }],
  });
  const held = await world.pod("held", "node-a", network);
  const ips = await world.given(held, network);
  await reserve(network, [
    { mac: "02:00:00:00:02:02", ips: ["10.2.0.10"] },
    { mac: "02:00:00:00:02:01", ips: ["10.2.0.11"] },
  ]);
  const why = `annotation ${ANNOTATION} of IPNetwork misread[1].mac is "02:00:00:00:02:01": it has an entry already`;
  expect(await world.refused(await world.pod("refused", "node-a", network), network, 7)).toContain(why);
  // A repeat is answered, and the container goes on.
  expect(await world.given(held, network)).toEqual(ips);
  const check = await world.cli("check", "--kubeconfig", world.cluster.kubeconfig("admin"));
  expect(check).toMatchObject({ code: 1, stdout: expect.stringContaining(why) });
  await reserve(network, [{ mac: "02:00:00:00:02:02", ips: ["10.2.0.10"] }]);
  expect(await world.given(await withMac(network, "02:00:00:00:02:02"), network)).toEqual(["10.2.0.10/24"]);
  expect(await world.given(await withMac(network, "02:00:00:00:02:01"), network)).toEqual(["10.2.0.9/24"]);
});
