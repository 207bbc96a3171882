import { cpSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CUDNS_PATH, UDNS_PATH } from "../../networks/udn/udn-object.ts";
import { type AdmissionRequest, review, shippedPolicies } from "../harness/admission.ts";
import { TestCluster } from "../harness/cluster.ts";
import { run } from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { until } from "../harness/wait.ts";
import { Webhook } from "../harness/webhook.ts";
import { udnDefinitions } from "../harness/world/udn-objects.ts";

// The field metadataServiceRef in OVN-Kubernetes' definitions, and its rules, on a real API server as the page has
// them.

const DEPLOY = join(import.meta.dirname, "../../deploy");
const UDNS = UDNS_PATH.replace("/userdefinednetworks", "/namespaces/default/userdefinednetworks");
const NETWORK = { topology: "Layer2", layer2: { role: "Primary", subnets: ["10.20.0.0/16"] } };

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
  await cluster.define(udnDefinitions("pruning"));
  cpSync(DEPLOY, join(cluster.directory, "deploy"), { recursive: true });
}, 300_000);
afterAll(() => cluster?.stop());

let number = 0;
function udn(more: object, annotations = {}): KubeObject {
  number += 1;
  const metadata = { name: `network-${number}`, namespace: "default", annotations };
  return {
    apiVersion: "k8s.ovn.org/v1",
    kind: "UserDefinedNetwork",
    metadata,
    spec: { ...NETWORK, ...more },
  };
}
function cudn(more: object): KubeObject {
  number += 1;
  const spec = { namespaceSelector: {}, network: { ...NETWORK, ...more } };
  const metadata = { name: `network-${number}` };
  return { apiVersion: "k8s.ovn.org/v1", kind: "ClusterUserDefinedNetwork", metadata, spec };
}
const create = (path: string, object: KubeObject) => cluster.api.call("POST", path, object);

test("before the definitions are patched, the API server drops the field", async () => {
  const answer = await create(UDNS, udn({ metadataServiceRef: { name: "md" } }));
  expect(answer.status).toBe(201);
  expect(answer.body.spec.metadataServiceRef).toBeUndefined();
});

test("the page's patches make the API server keep the field, and refuse one without its names", async () => {
  const [patches] = codeBlocks("docs/metadata-udn.md", "The field in the definitions") as [string, string];
  const env = { KUBECONFIG: cluster.kubeconfig("admin"), HOME: cluster.directory };
  const { code, stderr } = await run("bash", ["-euc", `cd ${cluster.directory}\n${patches}`], env);
  expect(stderr).toBe("");
  expect(code).toBe(0);
  const field = { metadataServiceRef: { name: "md" } };
  await until(async () => {
    const { body } = await create(UDNS, udn(field));
    return body.spec?.metadataServiceRef?.name === "md";
  }, "the field to be kept");
  const full = { metadataServiceRef: { name: "md", namespace: "shop" } };
  await until(async () => {
    const { body } = await create(CUDNS_PATH, cudn(full));
    return body.spec?.network?.metadataServiceRef?.namespace === "shop";
  }, "the cluster's field to be kept");
  for (const [path, object] of [
    [UDNS, udn({ metadataServiceRef: {} })],
    [UDNS, udn({ metadataServiceRef: { name: "" } })],
    [UDNS, udn({ metadataServiceRef: { name: "My_Service" } })],
    [UDNS, udn({ metadataServiceRef: { name: "a".repeat(254) } })],
    [CUDNS_PATH, cudn(field)],
    [CUDNS_PATH, cudn({ metadataServiceRef: { name: "md", namespace: "" } })],
  ] as const)
    expect((await create(path, object)).status, JSON.stringify(object.spec)).toBe(422);
  // Without a reference everything is as it was.
  expect((await create(UDNS, udn({}))).status).toBe(201);
});

test("the policies refuse what is written wrong, and let pass what OVN-Kubernetes writes afterwards", async () => {
  const policies = shippedPolicies("udn");
  const rules = policies.flatMap(({ spec }) => spec.matchConstraints.resourceRules);
  const decide = (request: KubeObject) => {
    const { refusals } = review(request as AdmissionRequest, policies);
    return refusals.length === 0 ? null : { code: 403, reason: "Forbidden", message: refusals.join("; ") };
  };
  const before = await cluster.api.create(UDNS, udn({}, { "metadata.holdfast.dev/service": "bank/md" }));
  const webhook = await Webhook.start(cluster, { name: "references", rules, decide });
  try {
    const foreign = () => create(UDNS, udn({ metadataServiceRef: { name: "md", namespace: "bank" } }));
    await until(async () => (await foreign()).status === 403, "the server to ask");
    expect((await foreign()).body.message).toContain("of its own namespace only");
    const secondary = { layer2: { role: "Secondary", subnets: ["10.20.0.0/16"] } };
    const answer = await create(
      CUDNS_PATH,
      cudn({ ...secondary, metadataServiceRef: { name: "md", namespace: "shop" } }),
    );
    expect(answer.body.message).toContain("metadataServiceRef is only supported for Primary network role");
    expect((await create(UDNS, udn({ metadataServiceRef: { name: "md", namespace: "default" } }))).status).toBe(201);
    const path = `${UDNS}/${before.metadata.name}`;
    await cluster.api.patch(path, {
      metadata: { finalizers: ["k8s.ovn.org/user-defined-network-protection"] },
    });
    await cluster.api.patch(path, { metadata: { finalizers: null } });
    await cluster.api.delete(path);
  } finally {
    await webhook.stop();
  }
});

test("each policy is bound", () => {
  const objects = readManifests(join(DEPLOY, "udn/policies.yaml"));
  const of = (kind: string) => objects.filter((one) => one.kind === kind);
  const bound = of("ValidatingAdmissionPolicyBinding").map(({ spec }) => spec);
  expect(bound.map(({ policyName }) => policyName)).toEqual(
    of("ValidatingAdmissionPolicy").map(({ metadata }) => metadata.name),
  );
  expect(bound.every(({ validationActions }) => validationActions.includes("Deny"))).toBe(true);
});
