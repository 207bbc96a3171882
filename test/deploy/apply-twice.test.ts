/**
 * "kubectl apply" of what is installed already changes nothing: whoever compares a cluster with a release sees no
 * drift.
 */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { TestCluster } from "../harness/cluster.ts";
import { newDirectory, run } from "../harness/daemon.ts";
import { flowControl } from "../harness/flow-control.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";

const ROOT = join(import.meta.dirname, "../..");
/**
 * All of them. The chart is what these files are (chart.test.ts), and so is what clusterctl installs
 * (kustomize.test.ts).
 */
const COMPONENTS = "metadata admission machines";
/** Where it has places to share out, a server of Kubernetes 1.20 has FlowSchemas. */
const REQUESTS_MAX = 400;
const POLICIES = "admissionregistration.k8s.io/v1";
/** In place of that group, in which an older server takes no definitions. */
const POLICIES_HERE = "policies.holdfast.test/v1";

const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const filledIn = (value: unknown, more: object = {}) => ({ ...anything, default: value, ...more });
const RULE = { ...anything, properties: { scope: { type: "string", default: "*" } } };
/** What a server fills in of a policy (k8s.io/api/admissionregistration/v1). */
const POLICY_SPEC = {
  ...anything,
  properties: {
    failurePolicy: { type: "string", default: "Fail" },
    matchConstraints: {
      ...anything,
      properties: {
        matchPolicy: { type: "string", default: "Equivalent" },
        namespaceSelector: filledIn({}),
        objectSelector: filledIn({}),
        resourceRules: { type: "array", items: RULE },
      },
    },
  },
};

let cluster: TestCluster;
let directory: string;
beforeAll(async () => {
  directory = newDirectory();
  const apiServerArgs = ["--allow-privileged"];
  cluster = await TestCluster.start({ controllers: false, requestsMax: REQUESTS_MAX, apiServerArgs });
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** A definition for a kind that this server has not, or that others bring. */
function definition(apiVersion: string, kind: string, scope: string, spec: object = anything): KubeObject {
  const [group, version] = apiVersion.split("/");
  const plural = kind.endsWith("y") ? `${kind.slice(0, -1)}ies`.toLowerCase() : `${kind}s`.toLowerCase();
  const openAPIV3Schema = { ...anything, properties: { spec } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      ...{ group, scope, names: { plural, kind, listKind: `${kind}List`, singular: kind.toLowerCase() } },
      versions: [{ name: version, served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
}

/** Everything that a release can install, as this server takes it. */
async function shipped(): Promise<KubeObject[]> {
  const { groups } = await cluster.api.get("/apis");
  const versions: string[] = groups.flatMap((one: KubeObject) =>
    one.versions.map(({ groupVersion }: KubeObject) => groupVersion),
  );
  const { resources } = versions.includes(POLICIES) ? await cluster.api.get(`/apis/${POLICIES}`) : { resources: [] };
  const hasPolicies = resources.some(({ name }: KubeObject) => name === "validatingadmissionpolicies");
  await cluster.apply([
    definition("monitoring.coreos.com/v1", "PodMonitor", "Namespaced"),
    definition("monitoring.coreos.com/v1", "PrometheusRule", "Namespaced"),
    ...(hasPolicies
      ? []
      : [
          definition(POLICIES_HERE, "ValidatingAdmissionPolicy", "Cluster", POLICY_SPEC),
          definition(POLICIES_HERE, "ValidatingAdmissionPolicyBinding", "Cluster"),
        ]),
  ]);
  const out = join(directory, "release");
  const words = ["--only", "manifests", "--components", COMPONENTS, "--without", "flowcontrol", out];
  expect(await run(process.execPath, [join(ROOT, "tools/release.mjs"), ...words])).toMatchObject({ code: 0 });
  const files = ["holdfast.yaml", "holdfast-observability.yaml"].map((name) => join(out, name));
  const deploy = ["udn/policies.yaml", "metadata/tenant.yaml"].map((name) => join(ROOT, "deploy", name));
  const objects = [...files, ...deploy].flatMap(readManifests);
  return [...objects, ...(await flowControl(cluster.api))].map((one) =>
    one.apiVersion === POLICIES && !hasPolicies ? { ...one, apiVersion: POLICIES_HERE } : one,
  );
}

test("every object that is applied a second time is unchanged", async () => {
  const objects = await shipped();
  const file = join(directory, "all.yaml");
  writeFileSync(file, objects.map((one) => stringify(one)).join("---\n"));
  const env = { KUBECONFIG: cluster.kubeconfig("admin"), HOME: directory };
  const apply = () => run("kubectl", ["apply", "-f", file], env);
  const first = await apply();
  expect(first, first.stderr).toMatchObject({ code: 0 });
  // What an administrator has set of a Deployment is no drift either.
  const deployment = "deployment/holdfast-controller";
  const scaled = await run("kubectl", ["-n", "holdfast-system", "scale", deployment, "--replicas=2"], env);
  expect(scaled, scaled.stderr).toMatchObject({ code: 0 });
  const second = await apply();
  expect(second, second.stderr).toMatchObject({ code: 0 });
  const lines = second.stdout.trim().split("\n");
  expect(lines.filter((line) => !line.endsWith(" unchanged"))).toEqual([]);
  expect(lines).toHaveLength(objects.length);
  const path = "/apis/apps/v1/namespaces/holdfast-system/deployments/holdfast-controller";
  expect((await cluster.api.get(path)).spec.replicas).toBe(2);
});
