/** IPAddresses that are there already count: after a move, a restore, or an answer of a former self. */
import { describe, expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL, type ClusterApi } from "../harness/machines/cluster-api.ts";
import { nameOf } from "../harness/world/network.ts";
import type { World } from "../harness/world/world.ts";
import { beginLan, names } from "./lan.ts";

const IN_PROD = { labels: { [CLUSTER_LABEL]: "prod" } };

/** An IPAddress as a move brings it: owned by a claim and a pool with the UIDs of here. */
function moved(capi: ClusterApi, claim: KubeObject, pool: KubeObject | null, address: string) {
  const owner = (kind: string, { apiVersion, metadata }: KubeObject) => ({
    ...{ apiVersion, kind, name: metadata.name, uid: metadata.uid, blockOwnerDeletion: true },
  });
  const ownerReferences = [
    { ...owner("IPAddressClaim", claim), controller: true },
    ...(pool === null ? [] : [owner("AddressPool", pool)]),
  ];
  const spec = { address, prefix: 24, claimRef: { name: claim.metadata.name }, poolRef: claim.spec.poolRef };
  return capi.putAddress(claim.metadata.name, spec, { ownerReferences });
}

/** An allocation goes, as with a restored backup: with its state, the controller would put it back. */
async function lose(world: World, text: string): Promise<void> {
  const path = `${ALLOCATIONS_PATH}/${nameOf("blue", text)}`;
  await world.cluster.api.patch(path, { metadata: { finalizers: null }, status: null });
  await world.cluster.api.delete(path);
}

test("moved addresses are recorded while the Cluster is paused, and published when the pause ends", async () => {
  const { world, capi, held } = await beginLan();
  await capi.capiCluster("prod", { paused: true });
  const pool = await capi.readPool("lan");
  for (const [index, name] of names(3).entries())
    await moved(capi, await capi.claim(name, "lan", IN_PROD), pool, `10.0.0.${index + 5}`);
  await world.until(async () => (await held()).length === 3, "the records");
  expect(await held()).toEqual(names(3).map((name, index) => `${name} 10.0.0.${index + 5}/24 Bound`));
  await world.advance(1_500);
  for (const name of names(3)) expect((await capi.readClaim(name))?.status).toBeUndefined();
  await capi.editCluster("prod", { spec: { paused: false } });
  for (const [index, name] of names(3).entries()) {
    expect(await capi.fulfilled(name)).toBe(`10.0.0.${index + 5}/24`);
    await capi.untilReady(name, "AddressAllocated");
  }
  await world.settled();
});

test("a moved address that somebody else holds is reported, and its claim gets no second one", async () => {
  const { world, capi, heldBy } = await beginLan();
  await capi.claim("holder", "lan", { annotations: { ipAddress: "10.0.0.5" } });
  await capi.fulfilled("holder");
  const claim = await capi.claim("m0", "lan", { annotations: { "cluster.x-k8s.io/paused": "" } });
  await moved(capi, claim, await capi.readPool("lan"), "10.0.0.5");
  await capi.editClaim("m0", { metadata: { annotations: null } });
  const { message } = await capi.untilReady("m0", "AllocationFailed");
  expect(message).toContain("held by machine claim shop/holder");
  expect(await heldBy("m0")).toEqual([]);
  await capi.deleteClaim("holder");
  expect(await capi.fulfilled("m0")).toBe("10.0.0.5/24");
  await capi.untilReady("m0", "AddressAllocated");
  await world.settled();
});

test("a moved address outside the pool is recorded, and published once the pool contains it", async () => {
  const { capi, heldBy } = await beginLan({ pool: { ranges: ["10.0.0.64/26"] } });
  const claim = await capi.claim("m0", "lan", { annotations: { "cluster.x-k8s.io/paused": "" } });
  await moved(capi, claim, await capi.readPool("lan"), "10.0.0.5");
  await capi.editClaim("m0", { metadata: { annotations: null } });
  const { message } = await capi.untilReady("m0", "AllocationFailed");
  expect(message).toContain("10.0.0.5, which AddressPool lan does not give");
  expect(await heldBy("m0")).toEqual(["m0 10.0.0.5/24 Bound"]);
  await capi.editPool("lan", { spec: { ranges: ["10.0.0.64/26", "10.0.0.5"] } });
  expect(await capi.fulfilled("m0")).toBe("10.0.0.5/24");
  await capi.untilReady("m0", "AddressAllocated");
});

test("an IPAddress that cannot be recorded is reported also while the pool gives nothing", async () => {
  const { world, capi } = await beginLan({ pool: null });
  const pool = await capi.pool("lan", "blue", { preallocations: { other: "10.9.9.9" } });
  await capi.untilPool("lan", "PreallocationInvalid");
  await moved(capi, await capi.claim("m0", "lan"), pool, "10.8.0.5");
  await world.until(async () => {
    const ready = await capi.ready("m0");
    return ready?.message.includes("PreallocationInvalid") && ready.message.includes("10.8.0.5, which is not in");
  }, "both troubles");
  expect((await capi.untilReady("m0", "PoolNotReady")).message).toContain("delete the IPAddress");
  await capi.deleteAddress("m0");
  await world.until(async () => !(await capi.ready("m0"))?.message.includes("10.8.0.5"), "the rest");
});

test("given addresses stay valid when the pool's ranges shrink", async () => {
  const { world, capi } = await beginLan({ pool: { ranges: ["10.0.0.10"] } });
  await capi.claim("m0", "lan");
  await capi.fulfilled("m0");
  await capi.editPool("lan", { spec: { ranges: ["10.0.0.20"] } });
  await capi.deleteAddress("m0");
  expect(await capi.fulfilled("m0")).toBe("10.0.0.10/24");
  await capi.claim("m1", "lan");
  expect(await capi.fulfilled("m1")).toBe("10.0.0.20/24");
  await world.settled();
});

describe("after a restored backup", () => {
  test("an IPAddress whose allocation is lost is recorded again", async () => {
    const { world, capi, heldBy } = await beginLan();
    await capi.claim("m0", "lan");
    const text = await capi.fulfilled("m0");
    await lose(world, text);
    await world.until(async () => (await heldBy("m0"))[0] === `m0 ${text} Bound`, "the record");
    await world.settled();
  });

  test("an IPAddress that disagrees with the allocation counts, and the allocation is given back", async () => {
    const { world, capi, heldBy } = await beginLan();
    await capi.claim("m0", "lan", { annotations: { ipAddress: "10.0.0.9" } });
    expect(await capi.fulfilled("m0")).toBe("10.0.0.9/24");
    const claim = (await capi.readClaim("m0")) as KubeObject;
    await capi.editClaim("m0", { metadata: { annotations: { "cluster.x-k8s.io/paused": "" } } });
    await capi.deleteAddress("m0");
    await moved(capi, claim, await capi.readPool("lan"), "10.0.0.5");
    await capi.editClaim("m0", { metadata: { annotations: { "cluster.x-k8s.io/paused": null } } });
    await world.until(async () => (await heldBy("m0")).join() === "m0 10.0.0.5/24 Bound,m0 10.0.0.9/24 Cooling", "it");
    expect(await capi.fulfilled("m0")).toBe("10.0.0.5/24");
    await world.settled();
  });
});

test("a pool that is deleted leaves its claims alone, new ones wait, and one of its name owns them again", async () => {
  const { world, capi } = await beginLan();
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  await capi.deletePool("lan");
  await capi.claim("m1", "lan");
  expect((await capi.untilReady("m1", "PoolNotReady")).message).toContain("does not exist");
  expect(await capi.fulfilled("m0")).toBe(text);
  expect((await capi.ready("m0"))?.status).toBe("True");
  const { metadata } = await capi.pool("lan", "blue");
  await capi.fulfilled("m1");
  const isOwned = async () => {
    const { ownerReferences } = ((await capi.address("m0")) as KubeObject).metadata;
    const pools = ownerReferences.filter(({ kind }: KubeObject) => kind === "AddressPool");
    return pools.length === 1 && pools[0].uid === metadata.uid;
  };
  await world.until(isOwned, "the new owner");
  await world.settled();
});

test("a claim gets the address that the pool keeps for it, and what others hold of these as soon as it is free", async () => {
  const { capi } = await beginLan();
  await capi.claim("other", "lan", { annotations: { ipAddress: "10.0.0.9" } });
  await capi.fulfilled("other");
  await capi.editPool("lan", { spec: { preallocations: { m0: "10.0.0.7", m1: "10.0.0.9" } } });
  await capi.claim("m0", "lan");
  expect(await capi.fulfilled("m0")).toBe("10.0.0.7/24");
  await capi.claim("m1", "lan");
  expect((await capi.untilReady("m1", "AllocationFailed")).message).toContain("10.0.0.9 is held by");
  await capi.claim("m2", "lan", { annotations: { ipAddress: "10.0.0.7" } });
  await capi.untilReady("m2", "AllocationFailed");
  await capi.deleteClaim("other");
  expect(await capi.fulfilled("m1")).toBe("10.0.0.9/24");
});

test("definitions that go and come in another version change nothing, and claims of the new version are served", async () => {
  const { world, capi, held } = await beginLan({ version: "v1beta1" });
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  await capi.untilReady("m0", "AddressAllocated");
  await capi.switchTo("v1beta2");
  await capi.claim("m1", "lan");
  await capi.fulfilled("m1");
  await capi.untilReady("m1", "AddressAllocated");
  expect(await capi.fulfilled("m0")).toBe(text);
  await world.settled();
  const before = await held();
  await capi.removeIpam();
  await world.advance(4_000);
  expect(await held()).toEqual(before);
});

test("a recovering network gives nothing to new claims, and records the addresses of existing IPAddresses", async () => {
  const { world, capi, held } = await beginLan();
  const recovering = async (status: "True" | "False") => {
    const lastTransitionTime = "2026-01-01T00:00:00Z";
    const condition = {
      type: "Recovering",
      status,
      reason: "AllocationsMissing",
      message: "node-a: lost one",
    };
    const { conditions } = ((await world.networkObject("blue")) as KubeObject).status;
    const others = conditions.filter(({ type }: KubeObject) => type !== "Recovering");
    await world.cluster.api.patch("/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/blue", {
      status: { conditions: [...others, { ...condition, lastTransitionTime }] },
    });
  };
  await recovering("True");
  await capi.claim("new", "lan");
  await capi.untilReady("new", "PoolNotReady");
  const claim = await capi.claim("old", "lan", { annotations: { "cluster.x-k8s.io/paused": "" } });
  await moved(capi, claim, await capi.readPool("lan"), "10.0.0.5");
  await world.until(async () => (await held()).length === 1, "the record");
  expect(await held()).toEqual(["old 10.0.0.5/24 Bound"]);
  await recovering("False");
  await capi.fulfilled("new");
});

test("a moved address outside the pool is released when its IPAddress is deleted, as the claim's status says", async () => {
  const { world, capi, heldBy } = await beginLan({ pool: { ranges: ["10.0.0.64/26"] } });
  const claim = await capi.claim("m0", "lan", { annotations: { "cluster.x-k8s.io/paused": "" } });
  await moved(capi, claim, await capi.readPool("lan"), "10.0.0.5");
  await capi.editClaim("m0", { metadata: { annotations: null } });
  expect((await capi.untilReady("m0", "AllocationFailed")).message).toContain("delete the IPAddress");
  await capi.deleteAddress("m0");
  await capi.untilReady("m0", "AddressAllocated");
  const text = await capi.fulfilled("m0");
  expect(text).not.toBe("10.0.0.5/24");
  await world.until(async () => (await heldBy("m0")).includes("m0 10.0.0.5/24 Cooling"), "the release");
  expect(await heldBy("m0")).toContain(`m0 ${text} Bound`);
  await world.settled();
});

test("a network that nothing defines any more keeps what its claims have, and nothing else is given to them", async () => {
  const { world, capi, held } = await beginLan();
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  await capi.untilReady("m0", "AddressAllocated");
  await world.cluster.api.delete("/apis/k8s.cni.cncf.io/v1/namespaces/shop/network-attachment-definitions/blue");
  await capi.claim("m1", "lan");
  expect((await capi.untilReady("m1", "PoolNotReady")).message).toContain("NetworkNotFound");
  await world.advance(2_500);
  expect((await capi.ready("m0"))?.status).toBe("True");
  expect(await held()).toEqual([`m0 ${text} Bound`]);
});

test("a claim that is created again under its name takes over its address also of a network that nothing defines any more", async () => {
  const { world, capi } = await beginLan();
  await capi.claim("m0", "lan");
  const text = (await capi.fulfilled("m0")) as string;
  await world.cluster.api.delete("/apis/k8s.cni.cncf.io/v1/namespaces/shop/network-attachment-definitions/blue");
  await capi.untilPool("lan", "NetworkNotFound");
  await capi.deleteClaim("m0");
  const { metadata } = await capi.claim("m0", "lan");
  const path = `${ALLOCATIONS_PATH}/${nameOf("blue", text)}`;
  await world.until(async () => (await world.cluster.api.find(path))?.spec.owner.uid === metadata.uid, "the takeover");
  expect((await capi.address("m0"))?.spec.address).toBe(text.split("/")[0]);
  expect((await capi.untilReady("m0", "PoolNotReady")).message).toContain("NetworkNotFound");
});
