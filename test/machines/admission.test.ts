/** Cluster API's admission does not answer, or refuses: the address is kept, and told as soon as it may be. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import type { World } from "../harness/world/world.ts";
import { startMachines } from "./in-world.ts";

/** Several passes of a controller in a hurry, ms. */
const PASSES_MS = 4_000;

let world: World;
let capi: ClusterApi;
beforeEach(async () => {
  ({ world, capi } = await startMachines());
  await capi.pool("machines", "blue");
  await capi.untilPool("machines", "Serving");
});
afterEach(async () => {
  await world?.stop();
});

const held = async () => (await world.bound({ name: "blue" })).map((text) => text.split(" ")[0]);

test("while admission is down the address is kept, and published once it is back", async () => {
  await capi.admission.become("down");
  await capi.claim("node-0", "machines");
  await world.until(async () => (await held()).length === 1, "an allocation");
  const [address] = await held();
  await world.advance(PASSES_MS);
  expect(await held()).toEqual([address]);
  expect((await capi.readClaim("node-0")).status?.addressRef).toBeUndefined();
  await capi.admission.become("up");
  expect(await capi.fulfilled("node-0")).toBe(address);
  await world.settled();
});

test("the claim's status has the message with which admission refused its IPAddress", async () => {
  await capi.admission.become("refusing");
  await capi.claim("node-0", "machines");
  const { status, message } = await capi.untilReady("node-0", "AllocationFailed");
  expect(status).toBe("False");
  expect(message).toContain("the test refuses it");
  const [address] = await held();
  expect(address).toBeDefined();
  await world.advance(PASSES_MS);
  expect(await held()).toEqual([address]);
  await capi.admission.become("up");
  expect(await capi.fulfilled("node-0")).toBe(address);
  await world.settled();
});
