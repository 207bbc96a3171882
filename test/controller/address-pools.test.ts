import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ADDRESS_POOLS_PATH, namespacedPath } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { until } from "../harness/wait.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const API_VERSION = "ipam.holdfast.dev/v1alpha1";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", controller: {} });
});
afterAll(async () => {
  await world?.stop();
});

function poolPath(name: string): string {
  return namespacedPath(ADDRESS_POOLS_PATH, NAMESPACE, name);
}

/** A pool of network `name`, unless its spec names another. */
function createPool(name: string, spec: object = {}): Promise<KubeObject> {
  return world.cluster.api.create(namespacedPath(ADDRESS_POOLS_PATH, NAMESPACE), {
    apiVersion: API_VERSION,
    kind: "AddressPool",
    metadata: { name, namespace: NAMESPACE },
    spec: { network: name, ...spec },
  });
}

async function networkBecomes(name: string, status: object): Promise<void> {
  await until(
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
    const pool = await createPool("metal", { definition: { subnets: ["10.60.0.0/24"] } });
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
    await world.cluster.api.delete(
      pathOf(NAMESPACE, "network-attachment-definitions", "metal", "k8s.cni.cncf.io/v1"),
    );
    await networkBecomes("metal", { definedBy: `AddressPool ${NAMESPACE}/metal`, subnets: "10.60.0.0/24" });
  });

  test("follows the pool's edits", async () => {
    await world.cluster.api.patch(poolPath("metal"), { spec: { definition: { subnets: ["10.60.0.0/25"] } } });
    await networkBecomes("metal", { subnets: "10.60.0.0/25", size: "128" });
    await until(
      async () => (await world.networkObject("metal"))?.status.importedFrom.at(-1).generation === 2,
      "the edited definition to be imported",
    );
  });
});
