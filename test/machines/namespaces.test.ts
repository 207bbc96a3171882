/** Nothing of Holdfast's holds up the end of a claim or of a namespace. */
import { afterEach, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { World } from "../harness/world/world.ts";

const CLAIMS = 100;
const ROUNDS = 100;
const SPACE = "machines";

let world: World;
let capi: ClusterApi;
afterEach(async () => {
  await world?.stop();
});

async function begin(): Promise<void> {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi();
  await world.kubevirt.createNamespace(SPACE);
  await world.network("blue", { subnets: "10.1.0.0/24" });
  await capi.pool("machines", "blue", {}, { namespace: SPACE });
}

async function claimAll(): Promise<string[]> {
  const names = Array.from({ length: CLAIMS }, (_, index) => `node-${index}`);
  await Promise.all(names.map((name) => capi.claim(name, "machines", { namespace: SPACE })));
  return Promise.all(names.map((name) => capi.fulfilled(name, SPACE)));
}

async function deleteNamespace(): Promise<void> {
  const path = `/api/v1/namespaces/${SPACE}`;
  await world.cluster.api.delete(path);
  await world.until(async () => (await world.cluster.api.find(path)) === null, "the namespace to go");
}

test("a namespace with claims can be deleted without a controller, and the next controller releases their addresses", async () => {
  await begin();
  const controller = await world.startController({ identity: "one" });
  expect(new Set(await claimAll()).size).toBe(CLAIMS);
  await controller.stop();
  await deleteNamespace();
  const states = async () => (await world.allocations({ name: "blue" })).map(({ status }) => status.state);
  expect(await states()).toEqual(Array.from({ length: CLAIMS }, () => "Bound"));
  await world.startController({ identity: "one" });
  await world.until(async () => (await states()).every((state) => state === "Cooling"), "every address to cool down");
});

test("the addresses of a namespace that is deleted cool down", async () => {
  await begin();
  await world.startController();
  await claimAll();
  await deleteNamespace();
  await world.until(async () => (await world.bound({ name: "blue" })).length === 0, "every address to cool down");
});

test("an IPAddress that cannot be recreated in a terminating namespace is no failure of its claim", async () => {
  await begin();
  const way = new CutLink();
  await world.startController({}, way);
  await capi.claim("node-0", "machines", { namespace: SPACE });
  const address = await capi.fulfilled("node-0", SPACE);
  await capi.untilReady("node-0", "AddressAllocated", SPACE);
  const { status } = await capi.readClaim("node-0", SPACE);
  // As between the two deletions: its controller takes kind after kind.
  (world.cluster as MemoryCluster).objects.put("/api/v1/namespaces", {
    ...(await world.cluster.api.get(`/api/v1/namespaces/${SPACE}`)),
    status: { phase: "Terminating" },
  });
  const creates = () => way.writes.filter((one) => /^POST .*\/ipaddresses$/.test(one)).length;
  const before = creates();
  await capi.deleteAddress("node-0", SPACE);
  await world.until(() => creates() > before, "a try to make it again");
  await world.stays("blue", address);
  expect((await capi.readClaim("node-0", SPACE)).status).toEqual(status);
});

test("a claim that is deleted and created again and again keeps its address, and leaves one IPAddress", async () => {
  await begin();
  await world.startController();
  await capi.claim("node-0", "machines", { namespace: SPACE });
  const first = await capi.fulfilled("node-0", SPACE);
  for (let round = 0; round < ROUNDS; round++) {
    await capi.deleteClaim("node-0", SPACE);
    await capi.claim("node-0", "machines", { namespace: SPACE });
    // Every few rounds it is waited for; the others follow each other at once.
    if (round % 10 === 9) expect(await capi.fulfilled("node-0", SPACE)).toBe(first);
  }
  expect(await capi.fulfilled("node-0", SPACE)).toBe(first);
  await world.settled();
  expect(await capi.addresses(SPACE)).toHaveLength(1);
  expect(await world.allocations({ name: "blue" })).toHaveLength(1);
});
