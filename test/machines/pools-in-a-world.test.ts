import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { preallocationUid } from "../../ipam/owner.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { ClusterApi } from "../harness/machines/cluster-api.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;
let capi: ClusterApi;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  capi = await ClusterApi.install(world.cluster);
  await world.startController();
});
afterAll(async () => {
  await world?.stop();
  await capi?.stop();
});

async function networkBecomes(name: string, status: object): Promise<void> {
  await world.until(
    async () => {
      const shown = (await world.networkObject(name))?.status ?? {};
      return Object.entries(status).every(([key, value]) => shown[key] === value);
    },
    `network ${name} to become ${JSON.stringify(status)}`,
  );
}

describe("a network that only an AddressPool defines", () => {
  test("is imported and counted, and belongs to the pool's namespace", async () => {
    const claim = await world.claim("before", "metal", { ips: ["10.60.0.5/24"] });
    const pool = await capi.pool("metal", "metal", { definition: { subnets: ["10.60.0.0/24"] } });
    await networkBecomes("metal", {
      definedBy: `AddressPool ${NAMESPACE}/metal`,
      subnets: "10.60.0.0/24",
      size: "256",
      allocated: "1",
    });
    const { spec, status } = (await world.networkObject("metal")) as KubeObject;
    expect(spec.definedIn).toBe(NAMESPACE);
    expect(status.importedFrom).toEqual([
      { definition: `AddressPool ${NAMESPACE}/metal`, uid: pool.metadata.uid, generation: 1 },
    ]);
    expect((await world.allocation("metal", "10.60.0.5/24"))?.spec.owner).toMatchObject({
      kind: "IPAMClaim",
      uid: claim.metadata.uid,
    });
  });

  test("is another's when a NAD defines it, and the pool's again when that is deleted", async () => {
    await world.kubevirt.createNad(NAMESPACE, "metal", configOf("metal", { subnets: ["10.60.0.0/23"] }));
    await networkBecomes("metal", { definedBy: `${NAMESPACE}/metal`, subnets: "10.60.0.0/23" });
    await world.cluster.api.delete(pathOf(NAMESPACE, "network-attachment-definitions", "metal", "k8s.cni.cncf.io/v1"));
    await networkBecomes("metal", { definedBy: `AddressPool ${NAMESPACE}/metal`, subnets: "10.60.0.0/24" });
  });

  test("follows the pool's edits", async () => {
    await capi.editPool("metal", { spec: { definition: { subnets: ["10.60.0.0/25"] } } });
    await networkBecomes("metal", { subnets: "10.60.0.0/25", size: "128" });
    await world.until(
      async () => (await world.networkObject("metal"))?.status.importedFrom.at(-1).generation === 2,
      "the edited definition to be imported",
    );
    await world.until(async () => (await capi.readPool("metal"))?.status.size === "126", "the pool's new size");
  });

  test("is served, with the rights that are shipped", async () => {
    const ready = await capi.untilPool("metal", "Serving");
    expect(ready).toMatchObject({ status: "True", message: "machine claims get addresses of network metal" });
    const { metadata, status } = await capi.editPool("metal", {
      spec: { preallocations: { "web-0": "10.60.0.9" } },
    });
    expect(status).toMatchObject({ size: "126", allocated: "1", cooling: "0", free: "125", outOfRange: "0" });
    await world.becomes("metal", "10.60.0.9/25", "Bound");
    expect((await world.allocation("metal", "10.60.0.9/25"))?.spec.owner).toEqual({
      ...{ kind: "IPAddressClaim", namespace: NAMESPACE, name: "web-0", interface: "" },
      uid: preallocationUid(metadata.uid),
    });
  });

  test("keeps its IPNetwork while a pool names it", async () => {
    await capi.editPool("metal", { spec: { definition: null } });
    const { message } = await capi.untilPool("metal", "NetworkNotFound");
    expect(message).toContain("it belongs to namespace shop, where no NetworkAttachmentDefinition defines it now");
    expect((await capi.readPool("metal"))?.status.size).toBeUndefined();
    expect(await world.networkObject("metal")).not.toBeNull();
  });
});
