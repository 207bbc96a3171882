/** `holdfast doctor` on a real API server: what is missing before an install, and what is wrong after one. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { TestCluster } from "../harness/cluster.ts";
import { HOLDFAST, run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const SYSTEM = "/apis/apps/v1/namespaces/holdfast-system";
const IPNETWORKS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipnetworks.ipam.holdfast.dev";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
}, 300_000);
afterAll(() => cluster?.stop());

async function doctor(user: "admin" | "holdfast-node" = "admin"): Promise<Diagnosis[]> {
  const words = [HOLDFAST, "doctor", "-o", "json", "--kubeconfig", cluster.kubeconfig(user)];
  const { code, stdout, stderr } = await run(process.execPath, words);
  if (stdout === "") throw new Error(stderr);
  const { items } = JSON.parse(stdout) as { items: Diagnosis[] };
  expect(code).toBe(items.some(({ state }) => state === "failed") ? 1 : 0);
  for (const { state, fix } of items) if (state === "failed" || state === "warning") expect(fix).not.toBe("");
  return items;
}

const look = async (part: string) => (await doctor()).filter((one) => one.part === part);
const setStatus = (path: string, status: object) => cluster.api.patch(`${path}/status`, { status });

async function addNode(name: string, kubeletVersion: string): Promise<void> {
  const node = await cluster.api.create("/api/v1/nodes", { metadata: { name } } as unknown as KubeObject);
  const nodeInfo = { ...node.status?.nodeInfo, kubeletVersion, operatingSystem: "linux" };
  for (const key of ["machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"])
    nodeInfo[key] ??= "";
  await setStatus(`/api/v1/nodes/${name}`, {
    nodeInfo: { kubeProxyVersion: "", architecture: "amd64", ...nodeInfo },
  });
}

test("before anything of deploy/ but the definitions is there", async () => {
  const found = await doctor();
  const of = (part: string) => found.filter((one) => one.part === part);
  expect(of("API server")).toMatchObject([{ state: "ok", found: expect.stringContaining("v1.20") }]);
  expect(of("clocks")).toMatchObject([{ state: "ok" }]);
  expect(of("definitions").map(({ state }) => state)).toEqual(["ok", "ok", "ok", "ok"]);
  expect(of("daemons")).toMatchObject([{ state: "failed", found: "there is no DaemonSet of Holdfast" }]);
  expect(of("controller")).toMatchObject([{ state: "failed" }]);
  expect(of("Multus")).toMatchObject([{ state: "warning" }]);
  expect(of("claims of VMs")).toMatchObject([{ state: "warning" }]);
});

test("a definition of another release, and one that is missing", async () => {
  const definition = await cluster.api.get(IPNETWORKS);
  const path = "/spec/versions/0/schema/openAPIV3Schema/properties/extra";
  await cluster.api.patch(IPNETWORKS, [{ op: "add", path, value: { type: "string" } }], "json");
  expect((await look("definitions"))[0]).toMatchObject({
    state: "warning",
    found: expect.stringContaining("ipnetworks.ipam.holdfast.dev is not that of this release"),
  });
  await cluster.api.delete(IPNETWORKS);
  expect((await look("definitions"))[0]).toMatchObject({
    state: "failed",
    found: "ipnetworks.ipam.holdfast.dev is not installed",
  });
  const { apiVersion, kind, metadata, spec } = definition;
  await cluster.apply([
    { apiVersion, kind, metadata: { name: metadata.name, labels: metadata.labels }, spec },
  ] as unknown as KubeObject[]);
  expect((await look("definitions"))[0]).toMatchObject({ state: "ok" });
});

test("daemons and controllers that are not ready, of two releases, and in another distribution's directory", async () => {
  await cluster.apply(["daemonset.yaml", "deployment.yaml"].flatMap((file) => readManifests(join(DEPLOY, file))));
  await addNode("n1", "v1.31.0");
  await setStatus(`${SYSTEM}/daemonsets/holdfast-node`, {
    desiredNumberScheduled: 1,
    currentNumberScheduled: 1,
    numberMisscheduled: 0,
    numberReady: 0,
  });
  expect(await look("daemons")).toMatchObject([{ state: "failed", found: "0 of 1 are ready" }]);
  expect(await look("controller")).toMatchObject([{ state: "failed", found: expect.stringContaining("none of 1") }]);
  expect(await look("nodes")).toMatchObject([{ state: "warning", found: expect.stringContaining("n1") }]);
  expect(await look("plugin directory")).toMatchObject([{ state: "ok", found: "/opt/cni/bin" }]);

  await setStatus(`${SYSTEM}/daemonsets/holdfast-node`, { numberReady: 1, updatedNumberScheduled: 1 });
  const controller = `${SYSTEM}/deployments/holdfast-controller`;
  await setStatus(controller, { replicas: 1, readyReplicas: 1 });
  expect(await look("daemons")).toMatchObject([{ state: "ok" }]);
  // As it is installed it is complete on one node.
  expect(await look("controller")).toMatchObject([{ state: "ok", found: "1 of 1 ready; nobody leads now" }]);
  await cluster.api.patch(controller, { spec: { replicas: 2 } });
  expect(await look("controller")).toMatchObject([
    {
      state: "warning",
      found: expect.stringContaining("1 of 2 are ready: each uses a port of its node"),
      fix: expect.stringContaining("scale deployment holdfast-controller --replicas=1"),
    },
  ]);
  await addNode("n3", "v1.31.0");
  expect(await look("controller")).toMatchObject([
    { state: "warning", found: "1 of 2 are ready: nobody takes over when it ends" },
  ]);
  await setStatus(controller, { replicas: 2, readyReplicas: 2 });
  expect(await look("controller")).toMatchObject([{ state: "ok" }]);
  await cluster.api.patch(controller, { spec: { replicas: 1 } });
  await setStatus(controller, { readyReplicas: 1 });
  expect(await look("controller")).toMatchObject([
    { state: "ok", found: expect.stringContaining("--replicas=2 adds one that takes over") },
  ]);
  await cluster.api.delete("/api/v1/nodes/n3");

  const image = [{ op: "replace", path: "/spec/template/spec/containers/0/image", value: "holdfast:0.0.1" }];
  await cluster.api.patch(`${SYSTEM}/deployments/holdfast-controller`, image, "json");
  expect(await look("daemons")).toMatchObject([{ state: "warning", found: expect.stringContaining("holdfast:0.0.1") }]);

  await addNode("n2", "v1.31.0+k3s1");
  await addNode("n3", "v1.31.1-gke.1146000");
  expect(await look("plugin directory")).toMatchObject([
    {
      state: "failed",
      found: expect.stringMatching(/on n2 k3s looks for plugins in \/var\/lib\/rancher\/k3s/),
    },
    {
      state: "failed",
      found: expect.stringMatching(/on n3 GKE looks for plugins in \/home\/kubernetes\/bin/),
    },
  ]);
});

test("a user who may not read something is told so, and nothing is called a fault for it", async () => {
  const found = await doctor("holdfast-node");
  expect(found.filter(({ state }) => state === "unknown").length).toBeGreaterThan(0);
  expect(found.filter(({ part }) => part === "daemons")).toMatchObject([{ state: "unknown" }]);
});
