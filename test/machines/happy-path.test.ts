/** One claim from its creation to the end of its address, with each version of Cluster API. */
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL } from "../harness/machines/cluster-api.ts";
import { Capm3, Capv } from "../harness/machines/consumers.ts";
import { IPAM_VERSIONS } from "../harness/machines/definitions.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE, nameOf } from "../harness/world/network.ts";
import { inMachines } from "./in-world.ts";

/** More than one pass of everything that a controller does again and again, ms. */
const PASSES_MS = 4_500;

const referenceTo = ({ apiVersion, kind, metadata: { name, uid } }: KubeObject, more: object) => ({
  apiVersion,
  kind,
  name,
  uid,
  blockOwnerDeletion: true,
  ...more,
});

describe.each(IPAM_VERSIONS)("with %s", (version) => {
  const kinds = ["capv", "metal3-data"] as const;

  test.concurrent("an IPAddress says what the contract asks for, the claim names it, and then nothing is written", () =>
    inMachines({ version, kinds }, async ({ world, capi, way }) => {
      const pool = await capi.pool("machines", "blue");
      await capi.capiCluster("prod");
      const claim = await capi.claim("node-0", "machines", {
        labels: { [CLUSTER_LABEL]: "prod", tier: "x" },
      });
      const [address = ""] = (await capi.fulfilled("node-0")).split("/");
      const allocation = await world.allocation("blue", `${address}/24`);
      expect(allocation).toMatchObject({
        metadata: { name: nameOf("blue", `${address}/24`) },
        spec: {
          network: "blue",
          owner: {
            ...{ kind: "IPAddressClaim", namespace: NAMESPACE, name: "node-0", uid: claim.metadata.uid },
            ...{ interface: "", cluster: "prod" },
          },
        },
        status: { state: "Bound" },
      });
      expect(allocation.status.attachments ?? {}).toEqual({});
      const { metadata, ...answer } = await capi.address("node-0");
      expect(answer).toEqual({
        apiVersion: `ipam.cluster.x-k8s.io/${version}`,
        kind: "IPAddress",
        spec: {
          address,
          prefix: 24,
          gateway: "10.1.0.1",
          claimRef: { name: "node-0" },
          poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "machines" },
        },
      });
      const { name, namespace, labels, annotations, finalizers, ownerReferences } = metadata;
      expect({ name, namespace, labels, annotations, finalizers }).toEqual({
        name: "node-0",
        namespace: NAMESPACE,
        labels: { [CLUSTER_LABEL]: "prod" },
        annotations: { "ipam.holdfast.dev/allocation": allocation.metadata.name },
        finalizers: undefined,
      });
      expect(ownerReferences).toEqual([
        referenceTo(claim, { controller: true }),
        referenceTo(pool, { controller: false }),
      ]);
      await capi.untilReady("node-0", "AddressAllocated");
      await capi.untilPool("machines", "Serving");
      await world.until(async () => (await capi.readPool("machines")).status.allocated === "1", "the pool to count it");
      await world.settled();
      const before = way.writes.length;
      await world.advance(PASSES_MS);
      expect(way.writes.slice(before)).toEqual([]);
      expect((await capi.readClaim("node-0")).metadata.finalizers ?? []).toEqual([]);
    }));

  test.concurrent("Ready has the form of the version", () =>
    inMachines({ version, kinds }, async ({ capi }) => {
      await capi.pool("machines", "blue");
      await capi.claim("node-0", "machines");
      await capi.untilReady("node-0", "AddressAllocated");
      const { status } = await capi.readClaim("node-0");
      const today = {
        ...{ type: "Ready", status: "True", reason: "AddressAllocated" },
        ...{ message: expect.any(String), lastTransitionTime: expect.any(String) },
      };
      const forms = {
        v1alpha1: { old: status.conditions },
        v1beta1: { old: status.conditions, today: status.v1beta2?.conditions },
        v1beta2: { today: status.conditions, deprecated: status.deprecated },
      }[version] as KubeObject;
      if ("today" in forms) expect(forms.today).toEqual([expect.objectContaining(today)]);
      if ("old" in forms) {
        expect(forms.old).toEqual([expect.objectContaining({ type: "Ready", status: "True" })]);
        expect(forms.old[0]).not.toHaveProperty("severity");
      }
      expect(forms.deprecated).toBeUndefined();
    }));

  test.concurrent("providers get addresses and release them, and released addresses cool down", () =>
    inMachines({ version, kinds }, async ({ world, capi }) => {
      await capi.pool("machines", "blue");
      await capi.capiCluster("prod");
      const metal3 = new Capm3(capi);
      const vsphere = new Capv(capi);
      await metal3.claim("node-0", "machines", "prod");
      await vsphere.claim("vm-a", "machines", "prod");
      const given = [await metal3.address("node-0", "machines"), await vsphere.address("vm-a")];
      expect(new Set(given).size).toBe(2);
      await world.settled();
      await metal3.release("node-0", "machines");
      await vsphere.release("vm-a");
      for (const address of given) await world.becomes("blue", address, "Cooling");
      await world.until(async () => (await capi.addresses()).length === 0, "the IPAddresses to go");
      await world.settled();
      expect((world.cluster as MemoryCluster).denied).toEqual([]);
    }));
});

test.concurrent("a claim of another provider's pool is left alone", () =>
  inMachines({}, async ({ world, capi }) => {
    await capi.pool("machines", "blue");
    for (const poolKind of [
      { apiGroup: "ipam.metal3.io", kind: "AddressPool" },
      { apiGroup: "ipam.holdfast.dev", kind: "IPPool" },
    ])
      await capi.claim(poolKind.kind.toLowerCase(), "machines", { poolKind });
    await capi.claim("own", "machines");
    await capi.fulfilled("own");
    await world.advance(PASSES_MS);
    const others = (await capi.claims()).filter(({ metadata }) => metadata.name !== "own");
    expect(others.map(({ status, metadata }) => ({ status, finalizers: metadata.finalizers }))).toEqual([{}, {}]);
    expect(await world.allocations({ name: "blue" })).toHaveLength(1);
  }));
