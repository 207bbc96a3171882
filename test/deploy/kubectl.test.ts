import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestCluster } from "../harness/cluster.ts";
import { run } from "../harness/daemon.ts";
import { codeBlocks, commandsInRow } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubePods } from "../harness/kube-pods.ts";
import { copyDeploy, FOR_OLD_SERVER } from "../harness/page-reader.ts";
import { until } from "../harness/wait.ts";
import { NETWORK, SAMPLE } from "./ledger.ts";

/**
 * The kubectl commands of the documentation on a real API server with its controllers; each test goes on from the one
 * before.
 */

const PROJECT = join(import.meta.dirname, "../..");
const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAME = "ipallocations.ipam.holdfast.dev";
const DAEMONS = "/apis/apps/v1/namespaces/holdfast-system/daemonsets/holdfast-node";
const CONTROLLER = "/apis/apps/v1/namespaces/holdfast-system/deployments/holdfast-controller";
const finalizers = ["ipam.holdfast.dev/bound"];
const HELD: KubeObject = { ...SAMPLE, metadata: { ...SAMPLE.metadata, finalizers } };

let cluster: TestCluster;
let directory: string;
beforeAll(async () => {
  cluster = await TestCluster.start();
  // The source tree and a home, where files may be written.
  directory = join(cluster.directory, "tree");
  mkdirSync(join(directory, ".kube"), { recursive: true });
  symlinkSync(cluster.kubeconfig("admin"), join(directory, ".kube/config"));
  copyDeploy(directory);
  symlinkSync(join(PROJECT, "dist"), join(directory, "dist"));
}, 300_000);
afterAll(() => cluster?.stop());

/** Runs a block as it is written. There are no kubelets here: a rollout has an end only in the documentation. */
async function typed(block: string): Promise<string> {
  const text = block.replaceAll(/^kubectl .* rollout status .*$/gm, "");
  const { code, stdout, stderr } = await tryTyped(text);
  if (code !== 0) throw new Error(`${text}: code ${code}\n${stdout}${stderr}`);
  return stdout;
}

function tryTyped(text: string) {
  const path = `${join(PROJECT, "dist/bin")}:${process.env.PATH}`;
  const script = `cd ${directory} && set -euo pipefail\n${text}`;
  return run("bash", ["-c", script], {
    HOME: directory,
    PATH: path,
    KUBECONFIG: join(directory, ".kube/config"),
  });
}

/** A living pod on a network of which the IPNetwork says that everything was imported. */
async function podOfImportedNetwork(name: string, address: string): Promise<void> {
  const pods = new KubePods(cluster.api);
  await pods.createNamespace("shop");
  const nad = await pods.createNad("shop", "old", {
    cniVersion: "1.0.0",
    name: "old",
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnets: "10.66.0.0/24" },
  });
  const { uid, generation } = nad.metadata as unknown as { uid: string; generation: number };
  const [, imported] = NETWORK.status.conditions;
  await cluster.api.create("/apis/ipam.holdfast.dev/v1alpha1/ipnetworks", {
    ...NETWORK,
    metadata: { name: "old", finalizers: ["ipam.holdfast.dev/network"] },
    spec: { network: "old", definedIn: "shop" },
    status: { conditions: [imported], importedFrom: [{ definition: "shop/old", uid, generation }] },
  });
  const status = [{ name: "shop/old", interface: "net1", ips: [address] }];
  const annotations = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status) };
  await pods.createPod("shop", name, { node: "n1", networks: [{ name: "old" }], annotations });
}

const found = async (path: string) => (await cluster.api.call("GET", path)).status === 200;

test("the node's account may look at our definitions, for holdfast check, and at no others", async () => {
  const api = cluster.apiAs("holdfast-node");
  const look = async (name: string) => (await api.call("GET", `${DEFINITIONS}/${name}`)).status;
  expect([await look(NAME), await look("ipnetworks.ipam.holdfast.dev")]).toEqual([200, 200]);
  expect(await look("ipamclaims.k8s.cni.cncf.io")).toBe(403);
  api.close();
});

test("docs/upgrade.md: an upgrade keeps the allocations and the names of DaemonSet and Deployment", async () => {
  await cluster.api.create(ALLOCATIONS, HELD);
  const upgrade = commandsInRow("docs/upgrade.md", "source tree, cluster");
  const uids = () => Promise.all([DAEMONS, CONTROLLER].map(async (path) => (await cluster.api.get(path)).metadata.uid));
  await typed(upgrade);
  const before = await uids();
  await typed(upgrade);
  expect(await uids()).toEqual(before);
  const [after] = codeBlocks("docs/upgrade.md", "In a cluster") as [string];
  for (const [, kind, name] of after.matchAll(/rollout status (\w+)\/(\S+)$/gm))
    expect(await found(`/apis/apps/v1/namespaces/holdfast-system/${kind}s/${name}`), name).toBe(true);
  expect((await cluster.api.get(`${ALLOCATIONS}/${HELD.metadata.name}`)).spec).toEqual(HELD.spec);
});

test("docs/uninstall.md: kubectl delete -k deploy keeps the allocations for a later install", async () => {
  const { uid } = (await cluster.api.get(`${ALLOCATIONS}/${HELD.metadata.name}`)).metadata;
  const [uninstall] = codeBlocks("docs/uninstall.md", "In a cluster") as [string];
  await typed(uninstall);
  expect(await found("/api/v1/namespaces/holdfast-system")).toBe(false);
  const left = await cluster.api.get(`${ALLOCATIONS}/${HELD.metadata.name}`);
  expect(left.metadata).toMatchObject({ uid, finalizers });
  expect(left.metadata.deletionTimestamp).toBeUndefined();
  await typed("kubectl apply -k deploy");
});

test("holdfast check reports a definition that is being deleted, and the documented procedure repairs it", async () => {
  for (const name of ["second", "third"])
    await cluster.api.create(ALLOCATIONS, { ...HELD, metadata: { name, finalizers } });
  await cluster.api.call("DELETE", `${DEFINITIONS}/${NAME}`);
  const another = { ...SAMPLE, metadata: { name: "another" } };
  const create = () => cluster.api.call("POST", `${ALLOCATIONS}?dryRun=All`, another);
  // The definition is marked at once, and refuses a moment later.
  await until(async () => (await create()).status === 405, "creates to be refused");
  const check = "holdfast check --kubeconfig ~/.kube/config";
  const told = await tryTyped(check);
  expect(told.code).toBe(1);
  expect(told.stdout).toContain(`definition: the definition ${NAME} is being deleted`);
  expect(told.stdout).toContain("docs/uninstall.md");

  await podOfImportedNetwork("survivor", "10.66.0.7");
  const [wayOut] = codeBlocks("docs/uninstall.md", "A definition that is being deleted") as [string];
  const [before, after] = wayOut.split(/^(?=kubectl apply -k deploy$)/m) as [string, string];
  await typed(before);
  // Recorded while no daemon and no controller can be there.
  expect([await found(DAEMONS), await found(CONTROLLER)]).toEqual([false, false]);
  const recorded = (await cluster.api.get(ALLOCATIONS)).items.map(({ spec }: KubeObject) => spec);
  expect(recorded).toMatchObject([{ address: "10.66.0.7/24", owner: { kind: "Pod", name: "survivor" } }]);
  await typed(after.replace(/^holdfast check .*$/m, ""));
  expect([await found(DAEMONS), await found(CONTROLLER)]).toEqual([true, true]);
  await cluster.api.create(ALLOCATIONS, HELD);
  expect((await tryTyped(check)).stdout).not.toContain("is being deleted");
});

test("docs/uninstall.md: removing the definitions deletes the allocations, and a new install starts empty", async () => {
  const [uninstall] = codeBlocks("docs/uninstall.md", "In a cluster") as [string];
  const [ledger] = codeBlocks("docs/uninstall.md", "Removing the ledger") as [string];
  await typed(uninstall);
  await typed(ledger);
  expect(await found(`${DEFINITIONS}/${NAME}`)).toBe(false);
  await typed("kubectl apply -k deploy/crds && kubectl apply -k deploy");
  expect((await cluster.api.get(ALLOCATIONS)).items).toEqual([]);
});

test("one file installs everything that kustomize does, and removing it keeps the ledger", async () => {
  const out = join(directory, "release");
  const words = [
    "--only",
    "manifests",
    "--image",
    "registry.example/holdfast:one",
    "--components",
    "machines",
    FOR_OLD_SERVER,
    out,
  ];
  expect(await run(process.execPath, [join(PROJECT, "tools/release.mjs"), ...words])).toMatchObject({
    code: 0,
  });
  await typed("kubectl delete -k deploy");
  await typed(`kubectl apply -f ${out}/holdfast.yaml`);
  const podsOf = async (path: string) => (await cluster.api.get(path)).spec.template.spec;
  const [daemons, controller] = [await podsOf(DAEMONS), await podsOf(CONTROLLER)];
  for (const { image } of [...daemons.initContainers, ...daemons.containers, ...controller.containers])
    expect(image).toBe("registry.example/holdfast:one");
  expect(controller.containers[0].args).toContain("--machine-data=own");
  const allocations = { ...HELD, metadata: { ...HELD.metadata, name: "kept-by-one-file" } };
  await cluster.api.create(ALLOCATIONS, allocations);
  const [, uninstall] = codeBlocks("docs/uninstall.md", "In a cluster") as [string, string];
  await typed(uninstall.replaceAll("holdfast.yaml", `${out}/holdfast.yaml`));
  expect(await found("/api/v1/namespaces/holdfast-system")).toBe(false);
  expect((await cluster.api.get(`${ALLOCATIONS}/kept-by-one-file`)).metadata.deletionTimestamp).toBeUndefined();
  expect(await found(`${DEFINITIONS}/${NAME}`)).toBe(true);
  await typed(`kubectl apply -f ${out}/holdfast.yaml`);
});
