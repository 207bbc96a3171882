/**
 * The stand-ins of Cluster API before a real API server: what is taken in memory is taken here, and what is refused
 * there.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { until } from "../harness/wait.ts";
import { World } from "../harness/world/world.ts";

let world: World;
let capi: ClusterApi;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  capi = await world.startClusterApi({ version: "v1beta1" });
});
afterAll(async () => {
  await world?.stop();
});

const spec = (claim: string, more: object = {}) => ({
  address: "10.9.0.5",
  prefix: 24,
  claimRef: { name: claim },
  poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "blue" },
  ...more,
});
const lastTransitionTime = "2026-01-01T00:00:00Z";
const old = { type: "Ready", status: "True", lastTransitionTime };
const today = { ...old, reason: "AddressAllocated", message: "" };

test("admission refuses an IPAddress of another pool, and answers 500 while it is down", async () => {
  await capi.claim("one", "blue");
  const other = spec("one", { poolRef: { ...spec("one").poolRef, name: "red" } });
  // The server asks a new webhook from soon after.
  await until(async () => (await refusalOf(() => capi.putAddress("other", other))) === 422, "admission to be asked");
  expect(capi.admission.refusals.at(-1)).toContain("the referenced pool is different");
  await capi.admission.become("down");
  expect(await refusalOf(() => capi.putAddress("one", spec("one")))).toBe(500);
  await capi.admission.become("refusing");
  expect(await refusalOf(() => capi.putAddress("one", spec("one")))).toBe(422);
  await capi.admission.become("up");
  await capi.putAddress("one", spec("one"));
  expect(await refusalOf(() => capi.editClaim("one", { spec: { poolRef: { name: "red" } } }))).toBe(422);
});

test("the server takes a status of its own version only, and what Cluster API converts when the version changes", async () => {
  await capi.claim("two", "blue");
  expect(await refusalOf(() => capi.publishClaim("two", { conditions: [today] }))).toBe(422);
  await capi.publishClaim("two", { conditions: [old], v1beta2: { conditions: [today] } });
  await capi.switchTo("v1beta2");
  expect((await capi.readClaim("two")).status).toEqual({
    conditions: [today],
    deprecated: { v1beta1: { conditions: [old] } },
  });
  expect(await refusalOf(() => capi.publishClaim("two", { conditions: [old] }))).toBe(422);
});

test("the collector takes the reference to a claim that is gone from an IPAddress that a pool still owns", async () => {
  const pool = await capi.pool("green", "green");
  const claim = await capi.claim("three", "green");
  const ownerReferences = [pool, claim].map(({ apiVersion, kind, metadata: { name, uid } }) => ({
    apiVersion,
    kind,
    name,
    uid,
  }));
  const poolRef = { ...spec("three").poolRef, name: "green" };
  await capi.putAddress("three", spec("three", { poolRef }), { ownerReferences });
  await capi.deleteClaim("three");
  const owners = async () => (await capi.address("three"))?.metadata.ownerReferences;
  await until(async () => (await owners())?.length === 1, "the claim's reference to go");
  expect(await owners()).toEqual(ownerReferences.slice(0, 1));
  await capi.deletePool("green");
  await until(async () => (await capi.address("three")) === null, "the IPAddress to go");
});

/** The HTTP status of a refusal; null: it is taken. */
async function refusalOf(write: () => Promise<unknown>): Promise<number | null> {
  try {
    await write();
    return null;
  } catch (error) {
    const { message } = error as Error;
    return [422, 500].find((status) => message.includes(` ${status} `)) ?? 0;
  }
}
