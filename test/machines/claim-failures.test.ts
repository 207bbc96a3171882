/** Claims of machines that cannot get an address: what they are told, and that nothing is final. */
import { describe, expect, test } from "vitest";
import { parseAddress } from "../../ipam/space/address.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL } from "../harness/machines/cluster-api.ts";
import { beginLan, names } from "./lan.ts";

const SMALL = { subnets: "10.0.0.0/29" };
const addressIs = (address: string) => ({ annotations: { "ipam.holdfast.dev/address": address } });
const postsOf = (writes: readonly string[], resource: string) =>
  writes.filter((one) => one === `POST ${resource}`).length;

test("claims of a full pool get one status write, and a freed address goes to the oldest with one create", async () => {
  const { world, capi, writes, held } = await beginLan({ ipam: { ...SMALL, cooldownSeconds: 0 } });
  const first = names(6);
  await Promise.all(first.map((name) => capi.claim(name, "lan")));
  for (const name of first) await capi.fulfilled(name);
  const waiting = Array.from({ length: 20 }, (_, index) => `w${index}`);
  for (const name of waiting) await capi.claim(name, "lan");
  for (const name of waiting) {
    const { message } = await capi.untilReady(name, "PoolExhausted");
    expect(message).toContain("AddressPool lan has no free address");
    expect(message).toContain("holdfast show blue");
  }
  const posts = writes().length;
  await world.advance(3_000);
  expect(writes()).toHaveLength(posts);
  const freed = await capi.fulfilled("m3");
  await capi.deleteClaim("m3");
  expect(await capi.fulfilled("w0")).toBe(freed);
  expect(postsOf(writes().slice(posts), "ipallocations") + postsOf(writes().slice(posts), "ipaddresses")).toBe(2);
  expect((await capi.ready("w1"))?.reason).toBe("PoolExhausted");
  await capi.editPool("lan", { spec: {} });
  expect((await held()).filter((one) => one.startsWith("w"))).toEqual([`w0 ${freed} Bound`]);
  await world.settled();
});

test("claims that wait are served when the pool grows", async () => {
  const { capi } = await beginLan({ pool: { ranges: ["10.0.0.10"] } });
  await capi.claim("m0", "lan");
  expect(await capi.fulfilled("m0")).toBe("10.0.0.10/24");
  await capi.claim("m1", "lan");
  await capi.untilReady("m1", "PoolExhausted");
  await capi.editPool("lan", { spec: { ranges: ["10.0.0.10-10.0.0.11"] } });
  expect(await capi.fulfilled("m1")).toBe("10.0.0.11/24");
  await capi.untilReady("m1", "AddressAllocated");
});

describe("a requested address", () => {
  test.each([
    ["10.0.0.300", "10.0.0.300"],
    ["10.9.0.5", "10.9.0.5 is not in"],
    ["10.0.0.7", "10.0.0.7 is held by machine claim shop/holder"],
    ["10.0.0.20/16", "10.0.0.20/24"],
  ])(
    "that cannot be given (%s) is refused with what to do, and another one is tried at once",
    async (address, text) => {
      const { capi, held } = await beginLan();
      await capi.claim("holder", "lan", addressIs("10.0.0.7"));
      expect(await capi.fulfilled("holder")).toBe("10.0.0.7/24");
      const claim = await capi.claim("m0", "lan", addressIs(address));
      const { status, message } = await capi.untilReady("m0", "AllocationFailed");
      expect(status).toBe("False");
      expect(message).toContain(text);
      expect((await held()).filter((one) => one.startsWith("m0"))).toEqual([]);
      expect(claim.status).toBeUndefined();
      await capi.editClaim("m0", { metadata: addressIs("10.0.0.9") });
      expect(await capi.fulfilled("m0")).toBe("10.0.0.9/24");
      await capi.untilReady("m0", "AddressAllocated");
    },
  );

  test("is given as soon as its holder lets it go", async () => {
    const { world, capi } = await beginLan();
    await capi.claim("holder", "lan", addressIs("10.0.0.7"));
    await capi.fulfilled("holder");
    const claim = await capi.claim("m0", "lan", { annotations: { ipAddress: "10.0.0.7" } });
    await capi.untilReady("m0", "AllocationFailed");
    expect(await world.untilEvent(claim, "AllocationFailed")).toContain("10.0.0.7 is held by");
    await capi.deleteClaim("holder");
    expect(await capi.fulfilled("m0")).toBe("10.0.0.7/24");
    await world.settled();
  });

  test("whose deleted allocation a finalizer keeps is reported, and given once it is gone", async () => {
    const { world, capi } = await beginLan();
    await capi.claim("holder", "lan", addressIs("10.0.0.7"));
    await capi.fulfilled("holder");
    await capi.deleteClaim("holder");
    const isCooling = async () => (await world.allocation("blue", "10.0.0.7/24"))?.status?.state === "Cooling";
    await world.until(isCooling, "the release");
    const path = `${ALLOCATIONS_PATH}/${allocationName("blue", parseAddress("10.0.0.7"))}`;
    await world.cluster.api.patch(path, { metadata: { finalizers: ["somebody.test/else"] } });
    await world.cluster.api.delete(path);
    await capi.claim("m0", "lan", addressIs("10.0.0.7"));
    expect((await capi.untilReady("m0", "AllocationFailed")).message).toContain("10.0.0.7");
    await world.cluster.api.patch(path, { metadata: { finalizers: null } });
    expect(await capi.fulfilled("m0")).toBe("10.0.0.7/24");
    await world.settled();
  });

  test("may be one that the network reserves", async () => {
    const { capi } = await beginLan({ ipam: { subnets: "10.0.0.0/24", reservedSubnets: "10.0.0.64/26" } });
    await capi.claim("m0", "lan", addressIs("10.0.0.70"));
    expect(await capi.fulfilled("m0")).toBe("10.0.0.70/24");
  });
});

test("a failing claim does not delay others, and other providers' claims are ignored", async () => {
  const { capi, writes } = await beginLan();
  await capi.claim("foreign", "lan", {
    poolKind: { apiGroup: "ipam.cluster.x-k8s.io", kind: "InClusterIPPool" },
  });
  await capi.claim("bad", "lan", addressIs("10.9.0.5"));
  await capi.claim("homeless", "nowhere");
  await capi.claim("good", "lan");
  await capi.fulfilled("good");
  await capi.untilReady("homeless", "PoolNotReady");
  await capi.untilReady("bad", "AllocationFailed");
  const { metadata, status } = (await capi.readClaim("foreign")) as KubeObject;
  expect([metadata.finalizers, status]).toEqual([undefined, undefined]);
  expect(postsOf(writes(), "ipallocations")).toBe(1);
});

describe("Cluster API's admission", () => {
  test("that is down delays an IPAddress, and the address is kept", async () => {
    const { world, capi, held, heldBy } = await beginLan();
    await capi.admission.become("down");
    await capi.claim("m0", "lan");
    await world.until(async () => (await held()).length === 1, "the allocation");
    const before = await heldBy("m0");
    await world.advance(2_500);
    expect(await heldBy("m0")).toEqual(before);
    expect((await capi.readClaim("m0"))?.status).toBeUndefined();
    await capi.admission.become("up");
    expect(before).toEqual([`m0 ${await capi.fulfilled("m0")} Bound`]);
    await world.settled();
  });

  test("that refuses is reported with its message, and the address is kept without further requests", async () => {
    const { world, capi, heldBy } = await beginLan();
    await capi.admission.become("refusing");
    const claim = await capi.claim("m0", "lan");
    const { message } = await capi.untilReady("m0", "AllocationFailed");
    expect(message).toContain("the test refuses it");
    expect(await world.untilEvent(claim, "AllocationFailed")).toContain("the test refuses it");
    expect(await heldBy("m0")).toEqual([expect.stringContaining("Bound")]);
    await capi.admission.become("up");
    expect(await heldBy("m0")).toEqual([`m0 ${await capi.fulfilled("m0")} Bound`]);
    await world.settled();
    const { length } = capi.admission.refusals;
    await capi.claim("m1", "lan");
    await capi.fulfilled("m1");
    expect(capi.admission.refusals).toHaveLength(length);
  });
});

describe("IPAddresses of other providers", () => {
  test("in addressRef stay, and what was reserved is given back", async () => {
    const { world, capi, heldBy } = await beginLan();
    await capi.admission.become("refusing");
    const claim = await capi.claim("m0", "lan");
    await capi.untilReady("m0", "AllocationFailed");
    expect(await heldBy("m0")).toEqual([expect.stringContaining("Bound")]);
    await capi.publishClaim("m0", { addressRef: { name: "theirs" } });
    expect(await world.untilEvent(claim, "AnsweredByOther")).toContain("theirs");
    await world.until(async () => (await heldBy("m0"))[0]?.endsWith("Cooling") === true, "the release");
    await capi.admission.become("up");
    await world.advance(2_500);
    expect((await capi.readClaim("m0"))?.status.addressRef).toEqual({ name: "theirs" });
    expect(await capi.addresses()).toEqual([]);
  });

  test("under the claim's name stay, and the claim is served when they go", async () => {
    const { world, capi, held } = await beginLan();
    await capi.putAddress("m0", {
      ...{ address: "10.0.0.5", prefix: 24, claimRef: { name: "other" } },
      poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "lan" },
    });
    const claim = await capi.claim("m0", "lan");
    expect(await world.untilEvent(claim, "AnsweredByOther")).toContain("answers claim other");
    expect(await held()).toEqual([]);
    expect((await capi.address("m0"))?.spec.claimRef.name).toBe("other");
    await capi.deleteAddress("m0");
    await capi.fulfilled("m0");
    await world.settled();
  });

  test("are not asked for: a pool with the name of Metal3's gives nothing", async () => {
    const { world, capi, held } = await beginLan({ kinds: ["metal3-pools"] });
    await capi.claim("old", "lan");
    const text = await capi.fulfilled("old");
    const path = "/apis/ipam.metal3.io/v1alpha1/namespaces/shop/ippools";
    await world.cluster.api.create(path, {
      ...{
        apiVersion: "ipam.metal3.io/v1alpha1",
        kind: "IPPool",
        metadata: { name: "lan", namespace: "shop" },
      },
      spec: { namePrefix: "lan", pools: [] },
    });
    await capi.untilPool("lan", "NameTaken");
    await capi.claim("m0", "lan");
    const { message } = await capi.untilReady("m0", "AllocationFailed");
    expect(message).toContain("NameTaken");
    expect(await held()).toEqual([`old ${text} Bound`]);
    await world.cluster.api.delete(`${path}/lan`);
    await capi.fulfilled("m0");
    await world.settled();
  });
});

describe("Cluster API's pause", () => {
  test.each<[string, { readonly before: object; readonly after: object } | null]>([
    ["of the Cluster's spec", { before: { paused: true }, after: { spec: { paused: false } } }],
    ["by a Cluster that is not there", null],
  ])("%s stops a claim without a status", async (_, cluster) => {
    const { world, capi, held } = await beginLan();
    if (cluster !== null) await capi.capiCluster("prod", cluster.before);
    await capi.claim("m0", "lan", { labels: { [CLUSTER_LABEL]: "prod" } });
    await world.advance(2_500);
    expect([(await capi.readClaim("m0"))?.status, await held()]).toEqual([undefined, []]);
    if (cluster === null) await capi.capiCluster("prod");
    else await capi.editCluster("prod", cluster.after);
    await capi.fulfilled("m0");
    await world.settled();
  });

  test("of a claim by its annotation stops it, until that is gone", async () => {
    const { world, capi, held } = await beginLan();
    await capi.claim("m0", "lan", { annotations: { "cluster.x-k8s.io/paused": "" } });
    await world.advance(2_500);
    expect([(await capi.readClaim("m0"))?.status, await held()]).toEqual([undefined, []]);
    await capi.editClaim("m0", { metadata: { annotations: null } });
    await capi.fulfilled("m0");
  });
});
