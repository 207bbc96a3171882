import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

test("a pod without a claim costs one create for each address, and one write at its DEL", async () => {
  const network = await world.network("cost", { subnets: "10.0.0.0/24,fd00::/64" });
  await world.given(await world.pod("cost-first", "node-a", network), network);
  await world.settled();
  const before = await world.cluster.writes();
  const pods = await Promise.all([0, 1, 2, 3].map((index) => world.pod(`cost-${index}`, "node-a", network)));
  for (const pod of pods) {
    const ips = await world.given(pod, network);
    expect(await world.given(pod, network)).toEqual(ips);
  }
  const after = await world.cluster.writes();
  const more = (resource: string, verb: "create" | "total") =>
    (after[resource]?.[verb] ?? 0) - (before[resource]?.[verb] ?? 0);
  expect(more("ipallocations", "create")).toBe(8);
  expect(more("ipallocations", "total")).toBe(8);
  expect(more("ipamclaims/status", "total")).toBe(0);
  expect(more("ipnetworks", "total")).toBe(0);
  expect(more("events", "total")).toBe(0);
  for (const pod of pods) await world.del(pod, network);
  await world.settled();
  const { ipallocations } = await world.cluster.writes();
  expect((ipallocations?.total ?? 0) - (after.ipallocations?.total ?? 0)).toBe(8);
});
