/**
 * Pools that are missing, full, edited, deleted and made again: what was given stays, and what waits is served once it
 * can be.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import type { World } from "../harness/world/world.ts";
import { startMachines } from "./in-world.ts";

/** Several passes of a controller in a hurry, ms. */
const PASSES_MS = 4_000;

let world: World;
let capi: ClusterApi;

beforeAll(async () => {
  ({ world, capi } = await startMachines());
  await world.network("wide", { subnets: "10.1.0.0/16", cooldownSeconds: 1 });
  await world.network("green", { subnets: "10.2.0.0/24" });
  await world.network("brown", { subnets: "10.3.0.0/24" });
});
afterAll(async () => {
  await world?.settled();
  await world?.stop();
});

const addressOf = async (claim: string) => (await capi.fulfilled(claim)).split("/")[0] as string;

test.concurrent("a claim of a pool that does not exist waits, and is served when it appears", async () => {
  await capi.claim("early", "late");
  const { status, message } = await capi.untilReady("early", "PoolNotReady");
  expect(status).toBe("False");
  expect(message).toContain("late");
  await capi.pool("late", "wide", { ranges: ["10.1.1.0/28"] });
  await capi.fulfilled("early");
  expect(await capi.untilReady("early", "AddressAllocated")).toMatchObject({ status: "True" });
});

test.concurrent("a pool of a network that does not exist gives nothing, and serves when it is defined", async () => {
  await capi.pool("unfounded", "future");
  await capi.untilPool("unfounded", "NetworkNotFound");
  await capi.claim("unfounded-0", "unfounded");
  await capi.untilReady("unfounded-0", "PoolNotReady");
  await world.network("future", { subnets: "10.5.0.0/24" });
  await capi.fulfilled("unfounded-0");
});

test.concurrent("a pool defines a network that no NetworkAttachmentDefinition does", async () => {
  await capi.pool("own", "machines-only", {
    definition: { subnets: "10.4.0.0/24", excludeSubnets: "10.4.0.0/25", gateway: "10.4.0.1" },
  });
  await capi.claim("own-0", "own");
  const { spec } = (await capi.fulfilled("own-0")) && (await capi.address("own-0"));
  expect(Number(spec.address.split(".")[3])).toBeGreaterThanOrEqual(128);
  expect(spec).toMatchObject({ prefix: 24, gateway: "10.4.0.1" });
});

test.concurrent("given addresses stay when their pool is deleted, and belong to a recreated pool again", async () => {
  await capi.pool("again", "wide", { ranges: ["10.1.2.0/28"] });
  await capi.claim("again-0", "again");
  const address = await capi.fulfilled("again-0");
  const { uid } = (await capi.address("again-0")).metadata;
  await capi.deletePool("again");
  await capi.claim("again-1", "again");
  await capi.untilReady("again-1", "PoolNotReady");
  await world.stays("wide", address);
  expect(await capi.fulfilled("again-0")).toBe(address);
  const pool = await capi.pool("again", "wide", { ranges: ["10.1.2.0/28"] });
  await capi.fulfilled("again-1");
  const owners = async () => {
    const { ownerReferences } = (await capi.address("again-0")).metadata;
    return ownerReferences.map((one: { readonly uid: string }) => one.uid);
  };
  await world.until(async () => (await owners()).includes(pool.metadata.uid), "the reference to the new pool");
  expect((await capi.address("again-0")).metadata.uid).toBe(uid);
  expect(await owners()).toHaveLength(2);
});

test.concurrent("a claim that is created again with another pool gets an address of that pool", async () => {
  await capi.pool("left", "wide", { ranges: ["10.1.13.0/28"] });
  await capi.pool("right", "wide", { ranges: ["10.1.13.16/28"] });
  await capi.pool("elsewhere", "brown");
  await capi.claim("wandering", "left");
  const first = await capi.fulfilled("wandering");
  for (const [pool, start] of [
    ["right", "10.1.13."],
    ["elsewhere", "10.3.0."],
  ] as const) {
    await capi.deleteClaim("wandering");
    await capi.claim("wandering", pool);
    expect(await capi.fulfilled("wandering")).toContain(start);
    expect((await capi.address("wandering")).spec.poolRef.name).toBe(pool);
  }
  await world.becomes("wide", first, "Cooling");
});

test.concurrent("addresses outside of a pool that has shrunk stay, and are counted", async () => {
  await capi.pool("shrinking", "wide", { ranges: ["10.1.3.5", "10.1.3.6"] });
  await capi.claim("shrinking-0", "shrinking");
  await capi.claim("shrinking-1", "shrinking");
  const held = [await capi.fulfilled("shrinking-0"), await capi.fulfilled("shrinking-1")].sort();
  expect(held).toEqual(["10.1.3.5/16", "10.1.3.6/16"]);
  await capi.editPool("shrinking", { spec: { ranges: ["10.1.3.6"] } });
  await world.until(async () => (await capi.readPool("shrinking")).status.outOfRange === "1", "the pool to count it");
  expect((await capi.readPool("shrinking")).status).toMatchObject({ size: "1", allocated: "1", free: "0" });
  await world.stays("wide", "10.1.3.5/16");
});

test.concurrent("a pool in use gives nothing of another network", async () => {
  await capi.pool("renamed", "wide", { ranges: ["10.1.4.0/28"] });
  await capi.claim("renamed-0", "renamed");
  const address = await capi.fulfilled("renamed-0");
  await capi.editPool("renamed", { spec: { network: "green", ranges: null } });
  await capi.untilPool("renamed", "NetworkChanged");
  await capi.claim("renamed-1", "renamed");
  await capi.untilReady("renamed-1", "PoolNotReady");
  await world.stays("wide", address);
  expect(await world.allocations({ name: "green" })).toEqual([]);
  await capi.editPool("renamed", { spec: { network: "wide", ranges: ["10.1.4.0/28"] } });
  await capi.fulfilled("renamed-1");
});

test.concurrent("a changed gateway applies to new claims only", async () => {
  await capi.pool("routed", "wide", { ranges: ["10.1.5.0/28"], gateway: "10.1.5.1" });
  await capi.claim("routed-0", "routed");
  await capi.fulfilled("routed-0");
  await capi.editPool("routed", { spec: { gateway: "10.1.5.2" } });
  await world.until(async () => {
    const { metadata, status } = await capi.readPool("routed");
    return status.observedGeneration === metadata.generation;
  }, "the edit to be seen");
  await capi.claim("routed-1", "routed");
  await capi.fulfilled("routed-1");
  expect((await capi.address("routed-0")).spec.gateway).toBe("10.1.5.1");
  expect((await capi.address("routed-1")).spec.gateway).toBe("10.1.5.2");
});

describe("a full pool", () => {
  test.concurrent("serves a waiting claim when an address is released", async () => {
    await capi.pool("full", "wide", { ranges: ["10.1.6.5"] });
    await capi.claim("full-0", "full");
    const address = await capi.fulfilled("full-0");
    await capi.claim("full-1", "full");
    expect(await capi.untilReady("full-1", "PoolExhausted")).toMatchObject({ status: "False" });
    await capi.deleteClaim("full-0");
    expect(await capi.fulfilled("full-1")).toBe(address);
  });

  test.concurrent("serves waiting claims when it grows, and writes the refusal once", async () => {
    await capi.pool("growing", "wide", { ranges: ["10.1.7.5"] });
    await capi.claim("growing-0", "growing");
    await capi.fulfilled("growing-0");
    await capi.claim("growing-1", "growing");
    await capi.untilReady("growing-1", "PoolExhausted");
    const before = (await capi.readClaim("growing-1")).metadata.resourceVersion;
    await world.advance(PASSES_MS);
    expect((await capi.readClaim("growing-1")).metadata.resourceVersion).toBe(before);
    await capi.editPool("growing", { spec: { ranges: ["10.1.7.5", "10.1.7.9"] } });
    expect(await capi.fulfilled("growing-1")).toBe("10.1.7.9/16");
  });
});

describe("a preallocation", () => {
  test.concurrent("gives its claim that address, and keeps it from everybody else", async () => {
    const preallocations = { "node-7": "10.1.8.5" };
    await capi.pool("planned", "wide", { ranges: ["10.1.8.5", "10.1.8.6"], preallocations });
    await world.becomes("wide", "10.1.8.5/16", "Bound");
    await capi.claim("other", "planned");
    await capi.claim("another", "planned");
    const reasons = async () => [(await capi.ready("other"))?.reason, (await capi.ready("another"))?.reason].sort();
    await world.until(
      async () => JSON.stringify(await reasons()) === '["AddressAllocated","PoolExhausted"]',
      "one claim to be served",
    );
    await capi.claim("node-7", "planned");
    expect(await capi.fulfilled("node-7")).toBe("10.1.8.5/16");
    for (const name of ["other", "another", "node-7"]) await capi.deleteClaim(name);
    const owner = async () => (await world.allocation("wide", "10.1.8.5/16"))?.spec.owner.uid;
    await world.until(async () => (await owner())?.startsWith("pool:") === true, "the address to be kept again");
  });

  test.concurrent("of an address in use is reported by pool and claim, and given when it is free", async () => {
    await capi.pool("occupied", "wide", { ranges: ["10.1.9.5"] });
    await capi.claim("holder", "occupied");
    await capi.fulfilled("holder");
    const preallocations = { "node-9": "10.1.9.5" };
    await capi.pool("wishing", "wide", { ranges: ["10.1.9.5", "10.1.9.6"], preallocations });
    await capi.claim("node-9", "wishing");
    await capi.claim("unaffected", "wishing");
    expect(await capi.untilReady("node-9", "AllocationFailed")).toMatchObject({ status: "False" });
    expect(await addressOf("unaffected")).toBe("10.1.9.6");
    expect(JSON.stringify((await capi.readPool("wishing")).status.conditions)).toContain("holder");
    await capi.deleteClaim("holder");
    expect(await addressOf("node-9")).toBe("10.1.9.5");
  });

  test.concurrent.each([
    ["twice", { a: "10.1.10.5", b: "10.1.10.5" }],
    ["outside", { a: "10.2.0.5" }],
  ])("%s is invalid, and the pool gives nothing", async (name, preallocations) => {
    await capi.pool(name, "wide", { ranges: ["10.1.10.0/28"], preallocations });
    expect(await capi.untilPool(name, "PreallocationInvalid")).toMatchObject({ status: "False" });
    await capi.claim(`${name}-0`, name);
    await capi.untilReady(`${name}-0`, "PoolNotReady");
    await capi.editPool(name, { spec: { preallocations: { a: "10.1.10.5", b: null } } });
    await capi.fulfilled(`${name}-0`);
  });
});

test.concurrent.each([
  ["taken", "10.1.11.5"],
  ["outside", "10.1.12.1"],
  ["no-address", "10.1.11"],
])("a request for an address that is %s fails, and is tried again when it changes", async (name, wanted) => {
  const pool = `asked-${name}`;
  await capi.pool(pool, "wide", { ranges: ["10.1.11.0/28"] });
  if (name === "taken") {
    const annotations = { "ipam.holdfast.dev/address": wanted };
    await capi.claim("asked-first", pool, { annotations });
    expect(await addressOf("asked-first")).toBe(wanted);
  }
  await capi.claim(pool, pool, { annotations: { ipAddress: wanted } });
  const { message } = await capi.untilReady(pool, "AllocationFailed");
  expect(message).toContain(wanted);
  const next = { taken: "10.1.11.6", outside: "10.1.11.7", "no-address": "10.1.11.8" }[name] as string;
  await capi.editClaim(pool, { metadata: { annotations: { ipAddress: next } } });
  expect(await addressOf(pool)).toBe(next);
});
