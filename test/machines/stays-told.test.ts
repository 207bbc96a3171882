/** What a machine was told stays what it was told, and what else is known of its claim follows. */
import { expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL } from "../harness/machines/cluster-api.ts";
import { NAMESPACE, nameOf } from "../harness/world/network.ts";
import { beginLan } from "./lan.ts";

/** Several passes of a controller in a hurry, ms. */
const PASSES_MS = 4_000;
const ADDRESS_PATH = `/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/${NAMESPACE}/ipaddresses/m0`;

test.each([false, true])("a Cluster that a claim names later keeps its address (it is paused: %s)", async (paused) => {
  const { world, capi, heldBy } = await beginLan();
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  await capi.capiCluster("prod", { paused });
  await capi.editClaim("m0", { metadata: { labels: { [CLUSTER_LABEL]: "prod" } } });
  const path = `${ALLOCATIONS_PATH}/${nameOf("blue", text)}`;
  const cluster = async () => (await world.cluster.api.find(path))?.spec.owner.cluster;
  await world.until(async () => (await cluster()) === "prod", "the Cluster to be recorded");
  await capi.editCluster("prod", { spec: { paused: true } });
  await world.advance(PASSES_MS);
  await capi.deleteClaim("m0");
  await world.advance(PASSES_MS);
  expect(await heldBy("m0")).toEqual([`m0 ${text} Bound`]);
});

test("of two addresses of a claim the published one is published again", async () => {
  const { world, capi, held } = await beginLan();
  await capi.claim("m0", "lan", { annotations: { "ipam.holdfast.dev/address": "10.0.0.50" } });
  expect(await capi.fulfilled("m0")).toBe("10.0.0.50/24");
  await capi.untilReady("m0", "AddressAllocated");
  const known = (await world.cluster.api.find(`${ALLOCATIONS_PATH}/${nameOf("blue", "10.0.0.50/24")}`)) as KubeObject;
  const holder = { owner: known.spec.owner, attachment: null };
  const second = newAllocation("blue", parseInterfaceAddress("10.0.0.20/24"), holder, known.status.since);
  await world.cluster.api.create(ALLOCATIONS_PATH, second);
  expect(await held()).toEqual(["m0 10.0.0.20/24 Bound", "m0 10.0.0.50/24 Bound"]);
  await capi.deleteAddress("m0");
  await world.until(async () => (await capi.address("m0")) !== null, "the IPAddress");
  expect((await capi.address("m0"))?.spec.address).toBe("10.0.0.50");
});

test("a served claim stays served while its pool gives nothing, and its IPAddress is repaired", async () => {
  const { world, capi } = await beginLan();
  await capi.claim("m0", "lan");
  const text = await capi.fulfilled("m0");
  await capi.untilReady("m0", "AddressAllocated");
  await capi.editPool("lan", { metadata: { annotations: { "cluster.x-k8s.io/paused": "" } } });
  await capi.untilPool("lan", "Paused");
  await world.cluster.api.patch(ADDRESS_PATH, { metadata: { annotations: null, ownerReferences: null } });
  await world.until(
    async () => (await capi.address("m0"))?.metadata.annotations?.["ipam.holdfast.dev/allocation"] !== undefined,
    "the IPAddress to be mended",
  );
  expect((await capi.address("m0"))?.metadata.ownerReferences).toHaveLength(2);
  await world.advance(PASSES_MS);
  expect(await capi.ready("m0")).toMatchObject({ status: "True", reason: "AddressAllocated" });
  expect(await capi.fulfilled("m0")).toBe(text);
});

test("a server of v1beta1 that keeps the old form of conditions only gets a status once", async () => {
  const { world, capi, writes } = await beginLan({ version: "v1beta1" });
  const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipaddressclaims.ipam.cluster.x-k8s.io";
  const definition = (await world.cluster.api.find(path)) as KubeObject;
  delete definition.spec.versions[0].schema.openAPIV3Schema.properties.status.properties.v1beta2;
  await world.cluster.api.replace(path, definition);
  await capi.claim("m0", "lan");
  await capi.fulfilled("m0");
  await capi.untilReady("m0", "AddressAllocated");
  await world.advance(PASSES_MS);
  expect((await capi.readClaim("m0"))?.status.v1beta2).toBeUndefined();
  expect(writes().filter((one) => one === "PATCH ipaddressclaims")).toHaveLength(1);
});
