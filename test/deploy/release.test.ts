import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { TestCluster } from "../harness/cluster.ts";
import { run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { collectionOf } from "../harness/kube-manifests.ts";

/** What clusterctl installs, as it installs it: the documents of a release with its variables filled in. */

const ROOT = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const VARIABLE = /\$\{(\w+):=([^}]*)\}/g;
const IMAGE = "registry.example/holdfast:test";
const PROVIDER = "cluster.x-k8s.io/provider";

let out: string;
let cluster: TestCluster;
let components: KubeObject[];
let metadata: KubeObject;
beforeAll(async () => {
  out = mkdtempSync(join(tmpdir(), "holdfast-release-"));
  const words = ["--only", "manifests", "--image", IMAGE, out];
  const { code, stderr } = await run(process.execPath, [join(ROOT, "tools/release.mjs"), ...words]);
  if (code !== 0) throw new Error(stderr);
  const [all, about] = ["ipam-components.yaml", "metadata.yaml"].map((name) =>
    readFileSync(join(out, name), "utf8"),
  ) as [string, string];
  components = parseAllDocuments(all.replace(VARIABLE, "$2")).map((one) => one.toJS());
  metadata = parseAllDocuments(about)[0]?.toJS();
  cluster = await TestCluster.start({ controllers: false });
});
afterAll(async () => {
  rmSync(out, { recursive: true, force: true });
  await cluster?.stop();
});

const find = (kind: string) => components.filter((one) => one.kind === kind);

test("the metadata names this release's series and the contract that it keeps", () => {
  const [major, minor] = version.split(".").map(Number);
  expect(metadata).toEqual({
    apiVersion: "clusterctl.cluster.x-k8s.io/v1alpha3",
    kind: "Metadata",
    releaseSeries: [{ major, minor, contract: "v1beta2" }],
  });
});

test("there is one namespace, one deployment with a container called manager, and the provider's label on everything", () => {
  expect(find("Namespace").map(({ metadata }) => metadata.name)).toEqual(["holdfast-system"]);
  const [deployment, ...others] = find("Deployment") as [KubeObject, ...KubeObject[]];
  expect(others).toEqual([]);
  const { template } = deployment.spec;
  expect(template.spec.containers).toMatchObject([{ name: "manager", image: IMAGE }]);
  const labels = [...components, template].map((one) => one.metadata.labels?.[PROVIDER]);
  expect(new Set(labels)).toEqual(new Set(["ipam-holdfast"]));
});

test("a move takes pools along, and no definition of Cluster API is brought", () => {
  const definitions = find("CustomResourceDefinition");
  expect(definitions.map(({ spec }) => spec.group)).toEqual(definitions.map(() => "ipam.holdfast.dev"));
  const pools = definitions.find(({ spec }) => spec.names.kind === "AddressPool");
  expect(pools?.metadata.labels).toHaveProperty(["clusterctl.cluster.x-k8s.io/move-hierarchy"], "");
});

test("every account, role and binding that is named is there, and the API server takes it all", async () => {
  const names = new Set(components.map(({ kind, metadata }) => `${kind} ${metadata.name}`));
  const named = components.flatMap(({ roleRef, subjects = [], spec }) => [
    ...(roleRef === undefined ? [] : [`${roleRef.kind} ${roleRef.name}`]),
    ...subjects.map(({ kind, name }: KubeObject) => `${kind} ${name}`),
    ...(spec?.template === undefined ? [] : [`ServiceAccount ${spec.template.spec.serviceAccountName}`]),
  ]);
  expect(named.length).toBeGreaterThan(3);
  expect(named.filter((one) => !names.has(one))).toEqual([]);
  await cluster.apply(components);
  for (const object of components) {
    const stored = await cluster.api.get(`${collectionOf(object)}/${object.metadata.name}`);
    expect(stored.metadata.labels).toMatchObject(object.metadata.labels);
  }
});
