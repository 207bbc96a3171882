/** Claims of machines (IPAddressClaims on AddressPools) get their addresses, whatever happened before. */
import { describe, expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL } from "../harness/machines/cluster-api.ts";
import { IPAM_VERSIONS } from "../harness/machines/definitions.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { NAMESPACE, nameOf } from "../harness/world/network.ts";
import { ownLease } from "../harness/world/own-lease.ts";
import { beginLan, names } from "./lan.ts";

/** Many passes of a controller. */
const PASS_MS = 10_000;
const POOL = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "lan" };

describe.each(IPAM_VERSIONS)("of %s", (version) => {
  test("a claim gets an IPAddress and a status as Cluster API has them, in three writes", async () => {
    const { world, capi, writes, held } = await beginLan({ version });
    await capi.capiCluster("prod");
    const claim = await capi.claim("m0", "lan", { labels: { [CLUSTER_LABEL]: "prod" } });
    const text = await capi.fulfilled("m0");
    const address = (await capi.address("m0")) as KubeObject;
    expect(text).toMatch(/^10\.0\.0\.\d+\/24$/);
    expect(address.spec).toEqual({
      claimRef: { name: "m0" },
      poolRef: POOL,
      address: text.split("/")[0],
      prefix: 24,
    });
    const [allocation] = await world.cluster.api.list(ALLOCATIONS_PATH);
    expect(address.metadata).toMatchObject({
      labels: { [CLUSTER_LABEL]: "prod" },
      annotations: { "ipam.holdfast.dev/allocation": allocation.metadata.name },
      ownerReferences: [
        {
          apiVersion: `ipam.cluster.x-k8s.io/${version}`,
          kind: "IPAddressClaim",
          name: "m0",
          uid: claim.metadata.uid,
          controller: true,
          blockOwnerDeletion: true,
        },
        {
          apiVersion: "ipam.holdfast.dev/v1alpha1",
          kind: "AddressPool",
          name: "lan",
          uid: (await capi.readPool("lan"))?.metadata.uid,
          controller: false,
          blockOwnerDeletion: true,
        },
      ],
    });
    expect(address.metadata.finalizers).toBeUndefined();
    expect(allocation.spec.owner).toEqual({
      kind: "IPAddressClaim",
      namespace: NAMESPACE,
      name: "m0",
      uid: claim.metadata.uid,
      interface: "",
      cluster: "prod",
    });
    const time = expect.any(String);
    const common = { type: "Ready", status: "True", reason: "AddressAllocated", lastTransitionTime: time };
    const forms = {
      v1alpha1: { conditions: [common] },
      v1beta1: { conditions: [common], v1beta2: { conditions: [{ ...common, message: "" }] } },
      v1beta2: { conditions: [{ ...common, message: "" }] },
    };
    await capi.untilReady("m0", "AddressAllocated");
    expect((await capi.readClaim("m0"))?.status).toEqual({ addressRef: { name: "m0" }, ...forms[version] });
    await world.settled();
    // Two runs over everything that has changed.
    await world.advance(2_500);
    expect(writes()).toEqual(["POST ipallocations", "POST ipaddresses", "PATCH ipaddressclaims"]);
    expect(await held()).toEqual([`m0 ${text} Bound`]);
  });

  test("a failure is reported once, in the form of the version, and cleared", async () => {
    const { world, capi, writes } = await beginLan({ version, pool: null });
    await capi.claim("m0", "lan");
    const message = "AddressPool lan does not exist; create it";
    const ready = await capi.untilReady("m0", "PoolNotReady");
    expect(ready).toMatchObject({ type: "Ready", status: "False", message });
    const { status } = (await capi.readClaim("m0")) as KubeObject;
    const severity = version === "v1beta2" ? undefined : "Info";
    expect(status.conditions).toHaveLength(1);
    expect(status.conditions[0].severity).toBe(severity);
    expect(status.v1beta2?.conditions[0].severity).toBeUndefined();
    await world.advance(2_500);
    expect(writes()).toEqual(["PATCH ipaddressclaims"]);
    await capi.pool("lan", "blue");
    await capi.untilReady("m0", "AddressAllocated");
    await world.settled();
  });
});

test("an IPAddress has the gateway of its pool or network, or none", async () => {
  const { capi } = await beginLan({ ipam: { subnets: "10.0.0.0/24", gateway: "10.0.0.1" } });
  await capi.pool("other", "blue", { gateway: "10.0.0.254" });
  for (const [name, pool] of [
    ["m0", "lan"],
    ["m1", "other"],
  ] as const) {
    await capi.claim(name, pool);
    await capi.fulfilled(name);
  }
  expect((await capi.address("m0"))?.spec.gateway).toBe("10.0.0.1");
  expect((await capi.address("m1"))?.spec.gateway).toBe("10.0.0.254");
});

describe("a controller that dies at a write", () => {
  const writes = [1, 2, 3].flatMap((write) => [
    { write, delivered: false },
    { write, delivered: true },
  ]);
  test.each(writes)("is followed by one that finishes: %o", async ({ write, delivered }) => {
    const of = /ipallocations|ipam\.cluster\.x-k8s\.io/;
    const { world, capi, link, heldBy } = await beginLan({ cut: { write, of, delivered } });
    await capi.claim("m0", "lan");
    await world.until(() => link.isCut, "the cut");
    await world.startController({ identity: "one" });
    const text = await capi.fulfilled("m0");
    await capi.untilReady("m0", "AddressAllocated");
    await world.settled();
    expect(await heldBy("m0")).toEqual([`m0 ${text} Bound`]);
    expect(await capi.addresses()).toHaveLength(1);
  });
});

test("300 claims at once get distinct addresses, and names that come again the same ones", async () => {
  const { world, capi, held } = await beginLan({ ipam: { subnets: "10.0.0.0/22" } });
  const all = names(300);
  await Promise.all(all.map((name) => capi.claim(name, "lan")));
  const first = new Map<string, string>();
  for (const name of all) first.set(name, await capi.fulfilled(name));
  expect(new Set(first.values()).size).toBe(300);
  await world.settled();
  await Promise.all(all.map((name) => capi.deleteClaim(name)));
  await world.until(async () => (await capi.addresses()).length === 0, "the IPAddresses to go");
  expect((await held()).filter((one) => one.endsWith("Bound"))).toEqual([]);
  await Promise.all(all.map((name) => capi.claim(name, "lan")));
  for (const name of all) expect(await capi.fulfilled(name)).toBe(first.get(name));
  await world.settled();
});

test("a claim that is deleted and created again a hundred times keeps its address and leaves one IPAddress", async () => {
  const { world, capi, heldBy } = await beginLan();
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  for (let round = 0; round < 100; round += 1) {
    await capi.deleteClaim("m0");
    await capi.claim("m0", "lan");
    if (round % 40 === 0) expect(await capi.fulfilled("m0")).toBe(text);
  }
  expect(await capi.fulfilled("m0")).toBe(text);
  await world.settled();
  expect(await capi.addresses()).toHaveLength(1);
  expect(await heldBy("m0")).toEqual([`m0 ${text} Bound`]);
});

test("two controllers without a lease between them give each claim one address", async () => {
  const { world, capi, held, link } = await beginLan();
  const other = new CutLink();
  await world.startController({ identity: "two", namespace: await ownLease(world.cluster) }, other);
  // Until it works: the other one would be done with all of them before.
  await world.advance(PASS_MS);
  const all = names(100);
  // In waves: whoever rests from a pass while one comes has its part of another.
  for (let from = 0; from < all.length; from += 10) {
    await Promise.all(all.slice(from, from + 10).map((name) => capi.claim(name, "lan")));
    await world.advance(370);
  }
  const told = [];
  for (const name of all) told.push(await capi.fulfilled(name));
  expect(new Set(told).size).toBe(100);
  await world.settled();
  expect((await held()).filter((one) => one.endsWith("Bound"))).toHaveLength(100);
  expect(await capi.addresses()).toHaveLength(100);
  for (const { writes } of [link, other])
    expect(writes.filter((one) => one.endsWith("ipallocations")).length).toBeGreaterThan(0);
});

test("an IPAddress that is deleted by hand is recreated unchanged", async () => {
  const { world, capi } = await beginLan();
  await capi.claim("m0", "lan");
  await capi.untilReady("m0", "AddressAllocated");
  const before = (await capi.address("m0")) as KubeObject;
  await capi.deleteAddress("m0");
  await world.until(async () => (await capi.address("m0")) !== null, "the IPAddress");
  const after = (await capi.address("m0")) as KubeObject;
  const kept = ({ metadata: { labels, annotations, ownerReferences }, spec }: KubeObject) => ({
    ...{ labels, annotations, ownerReferences, spec },
  });
  expect(kept(after)).toEqual(kept(before));
  expect(after.metadata.uid).not.toBe(before.metadata.uid);
  await world.settled();
});

test("a claim that is being deleted keeps its address until its finalizer is gone", async () => {
  const { world, capi, heldBy } = await beginLan();
  await capi.claim("m0", "lan", { finalizers: ["example.com/machine"] });
  const text = await capi.fulfilled("m0");
  await capi.deleteClaim("m0");
  await world.advance(4_000);
  expect(await heldBy("m0")).toEqual([`m0 ${text} Bound`]);
  await capi.editClaim("m0", { metadata: { finalizers: null } });
  await world.until(async () => (await heldBy("m0"))[0] === `m0 ${text} Cooling`, "the release");
  expect(await capi.address("m0")).toBeNull();
  await world.settled();
});

test("an allocation that is deleted by hand stays, and so does the IPAddress", async () => {
  const { world, capi, heldBy } = await beginLan();
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  await world.cluster.api.delete(`${ALLOCATIONS_PATH}/${nameOf("blue", text)}`);
  await world.advance(2_500);
  expect(await heldBy("m0")).toEqual([`m0 ${text} Bound`]);
  expect(await capi.fulfilled("m0")).toBe(text);
});

test("a status that somebody else takes away is written again", async () => {
  const { world, capi } = await beginLan();
  await capi.claim("m0", "lan");
  await capi.untilReady("m0", "AddressAllocated");
  for (const status of [{ conditions: null }, { addressRef: null }]) {
    await capi.publishClaim("m0", status);
    await world.until(async () => {
      const found = (await capi.readClaim("m0"))?.status;
      return found.addressRef?.name === "m0" && found.conditions?.[0]?.reason === "AddressAllocated";
    }, "the status");
  }
});
