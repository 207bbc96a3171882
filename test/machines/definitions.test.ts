/** Cluster API comes, changes its version and goes while a controller runs. */
import { expect, test } from "vitest";
import { World } from "../harness/world/world.ts";
import { inMachines } from "./in-world.ts";

/** Several passes of a controller in a hurry, ms. */
const PASSES_MS = 4_000;

test.concurrent("Cluster API is served once it is installed", async () => {
  const world = await World.start({ api: "memory", controller: {} });
  try {
    await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
    await world.advance(PASSES_MS);
    const capi = await world.startClusterApi();
    await capi.pool("machines", "blue");
    await capi.claim("node-0", "machines");
    await capi.fulfilled("node-0");
    await world.settled();
  } finally {
    await world.stop();
  }
});

test.concurrent("a management cluster without Multus and KubeVirt serves machines, and forgets a network that nothing uses", async () => {
  const world = await World.start({ api: "memory" });
  try {
    for (const name of ["network-attachment-definitions", "ipamclaims"])
      await world.cluster.api.delete(`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}.k8s.cni.cncf.io`);
    const capi = await world.startClusterApi();
    await world.startController({ coolingKeepSeconds: 5 });
    await capi.pool("lan", "metal", { definition: { subnets: ["10.6.0.0/24"], cooldownSeconds: 1 } });
    await capi.untilPool("lan", "Serving");
    await capi.claim("node-0", "lan");
    const address = await capi.fulfilled("node-0");
    await world.settled();
    await capi.deleteClaim("node-0");
    await world.becomes("metal", address, "Cooling");
    await world.becomes("metal", address, "none");
    await capi.deletePool("lan");
    await world.until(async () => (await world.networkObject("metal")) === null, "the network to be forgotten");
  } finally {
    await world.stop();
  }
});

test.concurrent("addresses are kept while the definition of their claims is gone", () =>
  inMachines({}, async ({ world, capi }) => {
    await capi.pool("machines", "blue");
    const claim = await capi.claim("node-0", "machines");
    const address = await capi.fulfilled("node-0");
    await world.settled();
    await capi.removeIpam();
    await world.stays("blue", address);
    await capi.addIpam();
    const next = await capi.claim("node-0", "machines");
    expect(next.metadata.uid).not.toBe(claim.metadata.uid);
    expect(await capi.fulfilled("node-0")).toBe(address);
    await world.settled();
  }));

test.concurrent("another version is read and written once it alone is served, and nothing is given twice", () =>
  inMachines({ version: "v1beta1" }, async ({ world, capi, way }) => {
    await capi.pool("machines", "blue");
    await capi.claim("node-0", "machines");
    const address = await capi.fulfilled("node-0");
    await capi.untilReady("node-0", "AddressAllocated");
    await capi.switchTo("v1beta2");
    await capi.claim("node-1", "machines");
    await capi.fulfilled("node-1");
    expect(await capi.untilReady("node-1", "AddressAllocated")).toMatchObject({ status: "True" });
    expect(await capi.fulfilled("node-0")).toBe(address);
    await world.settled();
    expect(way.writes.filter((one) => one.includes("/v1beta2/"))).not.toEqual([]);
    await capi.deleteClaim("node-0");
    await world.becomes("blue", address, "Cooling");
    await world.until(async () => (await capi.address("node-0")) === null, "its IPAddress to go");
  }));
