/** A cluster's machines go to another management cluster and come back, as `clusterctl move` takes them. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { CLUSTER_LABEL, type ClusterApi } from "../harness/machines/cluster-api.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const BLUE = { name: "blue" };
const MACHINES = ["m-0", "m-1", "m-2"];

interface Management {
  readonly world: World;
  readonly capi: ClusterApi;
}

let source: Management;
let target: Management;

async function management(): Promise<Management> {
  const world = await World.start({ api: "memory" });
  const capi = await world.startClusterApi();
  await world.startController();
  await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
  return { world, capi };
}

beforeEach(async () => {
  [source, target] = await Promise.all([management(), management()]);
  await source.capi.pool("nodes", "blue", {}, { labels: { [CLUSTER_LABEL]: "prod" } });
  await source.capi.capiCluster("prod");
  for (const name of MACHINES) await source.capi.claim(name, "nodes", { cluster: "prod" });
});
afterEach(async () => {
  await Promise.all([source?.world.stop(), target?.world.stop()]);
});

/** What a move takes along of an object: its owners have the UIDs of the target, and its status stays behind. */
function moved(object: KubeObject, uids: ReadonlyMap<string, string>): KubeObject {
  const { apiVersion, kind, metadata, spec } = object;
  const { name, namespace, labels = {}, annotations = {}, ownerReferences = [] } = metadata;
  const owners = ownerReferences.map((one: KubeObject) => ({ ...one, uid: uids.get(one.uid) }));
  return {
    apiVersion,
    kind,
    metadata: { name, namespace, labels, annotations, ownerReferences: owners },
    spec,
  };
}

/** Pauses the Cluster, creates everything there, deletes it here in the reverse order, and ends the pause there. */
async function move(from: Management, to: Management): Promise<void> {
  await from.capi.editCluster("prod", { spec: { paused: true } });
  const cluster = await from.capi.editCluster("prod", {});
  const pool = (await from.capi.readPool("nodes")) as KubeObject;
  const objects = [cluster, pool, ...(await from.capi.claims()), ...(await from.capi.addresses())];
  const uids = new Map<string, string>();
  for (const one of objects) {
    const created = await to.world.cluster.api.create(collectionOf(one), moved(one, uids));
    uids.set(one.metadata.uid, created.metadata.uid);
  }
  for (const one of objects.toReversed()) {
    await from.world.cluster.api.delete(`${collectionOf(one)}/${one.metadata.name}`);
  }
  await to.capi.editCluster("prod", { spec: { paused: false } });
}

function collectionOf({ apiVersion, kind }: KubeObject): string {
  const plural = `${kind.toLowerCase()}${kind.endsWith("s") ? "es" : "s"}`;
  return `/apis/${apiVersion}/namespaces/${NAMESPACE}/${plural}`;
}

async function addresses({ capi }: Management): Promise<string[]> {
  return Promise.all(MACHINES.map((name) => capi.fulfilled(name)));
}

/** Whoever is recorded as the holder of each machine's address, by the claim's name. */
async function holders({ world, capi }: Management): Promise<Record<string, string>> {
  const uids = new Map((await capi.claims()).map(({ metadata }) => [metadata.uid, metadata.name]));
  const bound = (await world.allocations(BLUE)).filter(({ status }) => status?.state === "Bound");
  return Object.fromEntries(bound.map(({ spec }) => [spec.address, uids.get(spec.owner.uid) ?? "gone"]));
}

const paused = async ({ world }: Management) => (await world.networkObject("blue"))?.status?.pausedClusters ?? [];

test("machines keep their addresses over a move and back, and none is given to anybody else meanwhile", async () => {
  const told = await addresses(source);
  const named = Object.fromEntries(told.map((address, index) => [address, MACHINES[index]]));
  await move(source, target);
  expect(await addresses(target)).toEqual(told);
  await target.world.until(async () => (await paused(target)).length === 0, "the pause to end in the target");
  expect(await holders(target)).toEqual(named);
  await source.world.until(async () => (await paused(source)).length > 0, "the pause to show in the source");
  expect(await paused(source)).toEqual([`${NAMESPACE}/prod`]);
  await Promise.all(told.map((address) => source.world.stays("blue", address)));
  await source.capi.pool("others", "blue");
  await source.capi.claim("other", "others");
  expect(told).not.toContain(await source.capi.fulfilled("other"));
  await source.capi.deleteClaim("other");

  await move(target, source);
  expect(await addresses(source)).toEqual(told);
  await source.world.until(async () => (await paused(source)).length === 0, "the pause to end in the source");
  await source.world.until(async () => {
    const now = await holders(source);
    return MACHINES.every((name, index) => now[told[index] as string] === name);
  }, "the machines to have their addresses back");
  await target.world.until(async () => (await paused(target)).length > 0, "the pause to show in the target");
  expect(await paused(target)).toEqual([`${NAMESPACE}/prod`]);
  await Promise.all(told.map((address) => target.world.stays("blue", address)));
});
