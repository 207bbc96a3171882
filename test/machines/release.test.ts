/** When the address of a machine is freed, and when it is kept: a controller over the API server in memory. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Controller } from "../../controller/controller.ts";
import { CLUSTER_LABEL, type ClusterApi } from "../harness/machines/cluster-api.ts";
import { IPAM_VERSIONS, type IpamVersion } from "../harness/machines/definitions.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { type ControllerFlags, World } from "../harness/world/world.ts";
import { machine, ownerOf } from "./machine-objects.ts";

const METRICS = "holdfast_controller_allocations";

let world: World;
let capi: ClusterApi;
let controller: Controller;

async function start(version: IpamVersion = "v1beta2"): Promise<void> {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi({ version });
  controller = await world.startController();
  await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
  await capi.pool("blue", "blue");
}

const stop = () => world?.stop();

/** How many allocations the sweep keeps with this word. */
async function kept(why: string): Promise<number> {
  const asked = fetch(`http://127.0.0.1:${controller.port}/metrics`);
  const text = await world.time.run(asked.then((answer) => answer.text()));
  const line = text.split("\n").find((one) => one.startsWith(`${METRICS}{verdict="keep",why="${why}"}`));
  return Number(line?.split(" ")[1] ?? 0);
}

const pausedClusters = async () => (await world.networkObject("blue"))?.status?.pausedClusters ?? [];

describe("a machine's address", () => {
  beforeAll(() => start());
  afterAll(stop);

  test.concurrent("is freed with its claim, and its IPAddress is deleted first", async () => {
    await capi.capiCluster("prod");
    await machine(world, capi, "deleted", "10.1.0.10/24", { cluster: "prod" });
    await world.stays("blue", "10.1.0.10/24");
    await capi.deleteClaim("deleted");
    await world.becomes("blue", "10.1.0.10/24", "Cooling");
    expect(await capi.address("deleted")).toBeNull();
    expect((await world.allocation("blue", "10.1.0.10/24"))?.metadata.finalizers ?? []).toEqual([]);
  });

  test.concurrent("is freed without a Cluster and without an IPAddress too", async () => {
    await machine(world, capi, "bare", "10.1.0.11/24");
    await capi.deleteClaim("bare");
    await capi.deleteAddress("bare");
    await world.becomes("blue", "10.1.0.11/24", "Cooling");
  });

  test.concurrent("is kept while the claim is held by a finalizer", async () => {
    await machine(world, capi, "held", "10.1.0.12/24");
    await capi.editClaim("held", { metadata: { finalizers: ["test/held"] } });
    await capi.deleteClaim("held");
    await world.stays("blue", "10.1.0.12/24");
    expect(await capi.address("held")).not.toBeNull();
    await capi.editClaim("held", { metadata: { finalizers: [] } });
    await world.becomes("blue", "10.1.0.12/24", "Cooling");
  });

  test.concurrent("is released without changing another provider's IPAddress of the name", async () => {
    await machine(world, capi, "strange", "10.1.0.13/24");
    const poolRef = { apiGroup: "ipam.cluster.x-k8s.io", kind: "InClusterIPPool", name: "blue" };
    await capi.deleteClaim("strange");
    await capi.deleteAddress("strange");
    await capi.putAddress("strange", {
      claimRef: { name: "strange" },
      poolRef,
      address: "10.1.0.13",
      prefix: 24,
    });
    await world.becomes("blue", "10.1.0.13/24", "Cooling");
    expect(await capi.address("strange")).not.toBeNull();
  });

  test.concurrent("that is not in its IPAddress is released, and the published one stays", async () => {
    const claim = await machine(world, capi, "raced", "10.1.0.14/24");
    await world.allocate("blue", "10.1.0.15/24", ownerOf(claim));
    await world.becomes("blue", "10.1.0.15/24", "Cooling");
    expect(await world.state("blue", "10.1.0.14/24")).toBe("Bound");
    expect((await capi.address("raced"))?.spec.address).toBe("10.1.0.14");
  });

  test.concurrent("is kept for a claim that was created again under its name", async () => {
    await machine(world, capi, "again", "10.1.0.16/24");
    await capi.deleteClaim("again");
    await capi.claim("again", "blue");
    await world.stays("blue", "10.1.0.16/24");
  });

  test.concurrent("is freed when the claim that has its name now asks another provider", async () => {
    await machine(world, capi, "foreign", "10.1.0.17/24");
    await capi.deleteClaim("foreign");
    const poolKind = { apiGroup: "ipam.cluster.x-k8s.io", kind: "InClusterIPPool" };
    await capi.claim("foreign", "blue", { poolKind });
    await world.becomes("blue", "10.1.0.17/24", "Cooling");
    expect(await capi.address("foreign")).toBeNull();
  });

  test.concurrent("is kept while the Cluster is paused, and freed when the pause ends", async () => {
    await capi.capiCluster("pausing");
    await machine(world, capi, "waits", "10.1.0.18/24", { cluster: "pausing" });
    await capi.editCluster("pausing", { spec: { paused: true } });
    await capi.deleteClaim("waits");
    await world.until(async () => (await pausedClusters()).includes(`${NAMESPACE}/pausing`), "the pause on record");
    await world.stays("blue", "10.1.0.18/24");
    await capi.editCluster("pausing", { spec: { paused: null } });
    await world.becomes("blue", "10.1.0.18/24", "Cooling");
    await world.until(async () => !(await pausedClusters()).includes(`${NAMESPACE}/pausing`), "the record to go");
  });

  test.concurrent("is kept when its Cluster has moved away, also when its namespace is deleted then", async () => {
    await world.kubevirt.createNamespace("source");
    await capi.pool("blue", "blue", {}, { namespace: "source" });
    await capi.capiCluster("moved", {}, "source");
    await machine(world, capi, "m0", "10.1.0.19/24", { cluster: "moved", namespace: "source" });
    await capi.editCluster("moved", { spec: { paused: true } }, "source");
    await world.until(async () => (await pausedClusters()).includes("source/moved"), "the pause on record");
    await capi.deleteAddress("m0", "source");
    await capi.deleteClaim("m0", "source");
    await capi.deletePool("blue", "source");
    await capi.deleteCluster("moved", "source");
    await world.stays("blue", "10.1.0.19/24");
    await world.cluster.api.delete("/api/v1/namespaces/source");
    await world.stays("blue", "10.1.0.19/24");
    expect(await pausedClusters()).toContain("source/moved");
    expect(await kept("claim-moved")).toBeGreaterThan(0);
  });

  test.concurrent("is kept although the pause lasted a moment only", async () => {
    await capi.capiCluster("brief");
    await machine(world, capi, "m1", "10.1.0.20/24", { cluster: "brief" });
    await capi.editCluster("brief", { metadata: { annotations: { "cluster.x-k8s.io/paused": "" } } });
    await capi.deleteClaim("m1");
    await capi.deleteCluster("brief");
    await world.until(async () => (await pausedClusters()).includes(`${NAMESPACE}/brief`), "the pause on record");
    await world.stays("blue", "10.1.0.20/24");
  });

  test.concurrent("is freed with its namespace", async () => {
    await world.kubevirt.createNamespace("ending");
    await capi.pool("blue", "blue", {}, { namespace: "ending" });
    await capi.capiCluster("gone", {}, "ending");
    await machine(world, capi, "m2", "10.1.0.21/24", { cluster: "gone", namespace: "ending" });
    await world.cluster.api.delete("/api/v1/namespaces/ending");
    await world.becomes("blue", "10.1.0.21/24", "Cooling");
  });

  test.concurrent("that a pool keeps for a claim is freed when the pool does not any more", async () => {
    await capi.pool("keeping", "blue", { preallocations: { later: "10.1.0.22" } });
    await world.becomes("blue", "10.1.0.22/24", "Bound");
    expect((await world.allocation("blue", "10.1.0.22/24"))?.spec.owner.name).toBe("later");
    await world.stays("blue", "10.1.0.22/24");
    await capi.editPool("keeping", { spec: { preallocations: null } });
    await world.becomes("blue", "10.1.0.22/24", "Cooling");
  });
});

describe.each(IPAM_VERSIONS)("where Cluster API speaks %s", (version) => {
  beforeAll(() => start(version));
  afterAll(stop);

  test("a machine's address is kept while its Cluster is paused, and freed after that", async () => {
    await capi.capiCluster("prod");
    await capi.claim("m0", "blue", { labels: { [CLUSTER_LABEL]: "prod" } });
    const address = await capi.fulfilled("m0");
    await capi.editCluster("prod", { spec: { paused: true } });
    await capi.deleteClaim("m0");
    await world.until(async () => (await kept("claim-moved")) === 1, "the sweep to see it moved");
    await world.advance(2_500);
    expect(await world.state("blue", address)).toBe("Bound");
    await capi.editCluster("prod", { spec: { paused: null } });
    await world.becomes("blue", address, "Cooling");
    expect(await capi.address("m0")).toBeNull();
  });
});

describe("without a controller that saw it", () => {
  beforeEach(() => start());
  afterEach(stop);

  /** Both go while no controller runs; as after a move, or a teardown. */
  async function goUnseen(flags: ControllerFlags = {}): Promise<void> {
    await capi.capiCluster("prod");
    await machine(world, capi, "m0", "10.1.0.10/24", { cluster: "prod" });
    await controller.stop();
    await capi.editCluster("prod", { spec: { paused: true } });
    await capi.deleteAddress("m0");
    await capi.deleteClaim("m0");
    await capi.deleteCluster("prod");
    controller = await world.startController(flags);
  }

  test("a machine's address is kept when its claim and its Cluster are gone", async () => {
    await goUnseen();
    await world.until(async () => (await kept("cluster-gone")) === 1, "the sweep to see it gone");
    await world.stays("blue", "10.1.0.10/24");
    expect(await pausedClusters()).toEqual([]);
  });

  test("it is freed after the time that the operator has set", async () => {
    await goUnseen({ clusterGoneReleaseSeconds: 6 });
    await world.advance(4_000);
    expect(await world.state("blue", "10.1.0.10/24")).toBe("Bound");
    await world.becomes("blue", "10.1.0.10/24", "Cooling");
  });

  test("nothing is freed while the definitions of Cluster API are gone", async () => {
    await machine(world, capi, "m1", "10.1.0.11/24");
    await capi.removeIpam();
    await world.until(async () => (await kept("unknown")) === 1, "the sweep to know nothing");
    await world.stays("blue", "10.1.0.11/24");
    await capi.addIpam();
    await world.becomes("blue", "10.1.0.11/24", "Cooling");
  });
});
