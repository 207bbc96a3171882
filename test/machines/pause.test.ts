/** Whatever is paused is left alone: nothing is given, and nothing is taken. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLUSTER_LABEL, type ClusterApi } from "../harness/machines/cluster-api.ts";
import type { World } from "../harness/world/world.ts";
import { startMachines } from "./in-world.ts";

const PAUSED = "cluster.x-k8s.io/paused";
/** Several passes of a controller in a hurry, ms. */
const PASSES_MS = 4_000;

let world: World;
let capi: ClusterApi;

beforeAll(async () => {
  ({ world, capi } = await startMachines());
  await capi.pool("machines", "blue");
  await capi.untilPool("machines", "Serving");
});
afterAll(async () => {
  await world?.stop();
});

async function unanswered(name: string): Promise<void> {
  await world.advance(PASSES_MS);
  const { uid } = (await capi.readClaim(name)).metadata;
  expect((await capi.readClaim(name)).status?.addressRef).toBeUndefined();
  expect(await capi.address(name)).toBeNull();
  const held = (await world.allocations({ name: "blue" })).filter(({ spec }) => spec.owner.uid === uid);
  expect(held).toEqual([]);
}

test.concurrent("a paused claim waits until it is not", async () => {
  await capi.claim("own", "machines", { annotations: { [PAUSED]: "" } });
  await unanswered("own");
  await capi.editClaim("own", { metadata: { annotations: { [PAUSED]: null } } });
  await capi.fulfilled("own");
});

test.concurrent("claims of a Cluster that is paused by its spec wait, known by name or by label", async () => {
  await capi.capiCluster("specified", { paused: true });
  await capi.claim("by-name", "machines", { cluster: "specified" });
  await capi.claim("by-label", "machines", { labels: { [CLUSTER_LABEL]: "specified" } });
  await unanswered("by-name");
  await unanswered("by-label");
  await capi.editCluster("specified", { spec: { paused: false } });
  await capi.fulfilled("by-name");
  await capi.fulfilled("by-label");
});

test.concurrent("claims of a Cluster that is paused by its annotation wait", async () => {
  await capi.capiCluster("annotated");
  await capi.editCluster("annotated", { metadata: { annotations: { [PAUSED]: "true" } } });
  await capi.claim("annotated-0", "machines", { cluster: "annotated" });
  await unanswered("annotated-0");
  await capi.editCluster("annotated", { metadata: { annotations: { [PAUSED]: null } } });
  await capi.fulfilled("annotated-0");
});

test.concurrent("a claim waits for the Cluster that it names", async () => {
  await capi.claim("early", "machines", { cluster: "late" });
  await unanswered("early");
  await capi.capiCluster("late");
  await capi.fulfilled("early");
});

test.concurrent("a paused pool gives nothing new, and takes nothing", async () => {
  await capi.pool("still", "blue", { ranges: ["10.1.0.200-10.1.0.209"] });
  await capi.claim("still-0", "still");
  const held = await capi.fulfilled("still-0");
  await capi.editPool("still", { metadata: { annotations: { [PAUSED]: "" } } });
  await capi.claim("still-1", "still");
  await unanswered("still-1");
  expect(await world.state("blue", held)).toBe("Bound");
  await capi.editPool("still", { metadata: { annotations: { [PAUSED]: null } } });
  await capi.fulfilled("still-1");
});

test.concurrent("an address whose claim is deleted while the Cluster is paused is kept until it is not", async () => {
  await capi.capiCluster("moving");
  await capi.claim("moving-0", "machines", { cluster: "moving" });
  const held = await capi.fulfilled("moving-0");
  await capi.editCluster("moving", { spec: { paused: true } });
  await world.until(
    async () => (await world.networkObject("blue")).status.pausedClusters?.includes("shop/moving") === true,
    "the pause to be recorded",
  );
  await capi.deleteClaim("moving-0");
  await world.stays("blue", held);
  await capi.editCluster("moving", { spec: { paused: false } });
  await world.becomes("blue", held, "Cooling");
  await world.until(
    async () => (await world.networkObject("blue")).status.pausedClusters?.includes("shop/moving") !== true,
    "the record of the pause to go",
  );
});
