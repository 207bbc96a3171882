import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestCluster } from "../harness/cluster.ts";
import { HOLDFAST, run, until } from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { collectionOf, readManifests } from "../harness/kube-manifests.ts";

import { SAMPLE } from "./ledger.ts";

/** `kubectl apply -k` and `kubectl delete -k` on a real API server with its controllers; tests go on from one to the next. */

const DEPLOY = join(import.meta.dirname, "../../deploy");
const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAME = "ipallocations.ipam.holdfast.dev";

const HELD: KubeObject = {
  ...SAMPLE,
  metadata: { ...SAMPLE.metadata, finalizers: ["ipam.holdfast.dev/bound"] },
};

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.start();
}, 300_000);
afterAll(() => cluster?.stop());

/** The objects of a kustomization, in its order. */
function kustomization(folder: string): KubeObject[] {
  const path = join(DEPLOY, folder);
  const { resources } = readManifests(join(path, "kustomization.yaml"))[0] as KubeObject;
  return resources.flatMap((file: string) => readManifests(join(path, file)));
}

/** As kubectl does it: every object is told to go, in the order of the kustomization, and then every one is waited for. */
async function deleteAll(objects: readonly KubeObject[]): Promise<void> {
  const paths = objects.map((object) => `${collectionOf(object)}/${object.metadata.name}`);
  for (const path of paths) await cluster.api.call("DELETE", path, { propagationPolicy: "Background" });
  for (const path of paths) {
    await until(
      async () => (await cluster.api.call("GET", path)).status === 404,
      `${path} to be gone`,
      240_000,
    );
  }
}

test("kubectl delete -k deploy ends and leaves the ledger, and an install goes on with it", async () => {
  await cluster.apply([...kustomization("crds"), ...kustomization("")]);
  await cluster.api.create(ALLOCATIONS, HELD);
  await deleteAll(kustomization(""));
  const left = await cluster.api.get(`${ALLOCATIONS}/${SAMPLE.metadata.name}`);
  expect(left.metadata.deletionTimestamp).toBeUndefined();
  expect(left.spec).toEqual(SAMPLE.spec);
  await cluster.apply([...kustomization("crds"), ...kustomization("")]);
  expect((await cluster.api.get(`${ALLOCATIONS}/${SAMPLE.metadata.name}`)).metadata.uid).toBe(
    left.metadata.uid,
  );
  expect((await check()).stdout).not.toContain("is being deleted");
});

test("a definition that is being deleted: holdfast check says so, and the documented way out ends with a sound install", async () => {
  await cluster.api.call("DELETE", `${DEFINITIONS}/${NAME}`);
  // The definition is marked at once, and refuses a moment later.
  const create = () => cluster.api.call("POST", `${ALLOCATIONS}?dryRun=All`, another);
  const another = { ...SAMPLE, metadata: { name: "another" } };
  await until(async () => (await create()).status === 405, "creates to be refused");
  const { code, stdout } = await check();
  expect(code).toBe(1);
  expect(stdout).toContain(`definition: the definition ${NAME} is being deleted`);
  expect(stdout).toContain("docs/uninstall.md");

  const [block] = codeBlocks("docs/uninstall.md", "A definition that is being deleted") as [string];
  expect(block).toContain(`'{"metadata":{"finalizers":null}}'`);
  await removeFinalizers();
  await until(async () => (await cluster.api.call("GET", `${DEFINITIONS}/${NAME}`)).status === 404, NAME);
  await cluster.apply([...kustomization("crds"), ...kustomization("")]);
  await cluster.api.create(ALLOCATIONS, HELD);
  expect((await check()).stdout).not.toContain("is being deleted");
});

test("the ledger goes when its finalizers are gone, and an install begins anew", async () => {
  await deleteAll(kustomization(""));
  await removeFinalizers();
  await deleteAll(kustomization("crds"));
  await cluster.apply([...kustomization("crds"), ...kustomization("")]);
  expect((await cluster.api.get(ALLOCATIONS)).items).toEqual([]);
});

/** What the documented pipeline of kubectl does, through the API. */
async function removeFinalizers(): Promise<void> {
  const { items } = await cluster.api.get(ALLOCATIONS);
  for (const { metadata } of items)
    await cluster.api.patch(`${ALLOCATIONS}/${metadata.name}`, { metadata: { finalizers: null } });
}

function check() {
  return run(process.execPath, [HOLDFAST, "check", "--kubeconfig", cluster.kubeconfig("admin")]);
}
