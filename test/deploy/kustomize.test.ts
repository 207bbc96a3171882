/** What a release writes is what `kubectl kustomize` makes of the source, in every field. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { byName, kustomized, readByKubectl } from "./kustomize.ts";

const ROOT = join(import.meta.dirname, "../..");
const IMAGE = "registry.example:5000/net/holdfast:one";
const PROVIDER = { "cluster.x-k8s.io/provider": "ipam-holdfast" };
const VARIABLE = /\$\{(\w+):=([^}]*)\}/g;
const ALL = ["metadata", "admission", "machines"];

let out: string;
beforeAll(() => {
  out = mkdtempSync(join(tmpdir(), "holdfast-kustomize-"));
});
afterAll(() => rmSync(out, { recursive: true, force: true }));

/** The file of a release with these components. */
async function release(components: readonly string[], more: readonly string[] = []) {
  const directory = join(out, ["with", ...components, ...more].join("-"));
  const words = ["--only", "manifests", "--image", IMAGE, "--components", components.join(" "), ...more];
  const { code, stderr } = await run(process.execPath, [join(ROOT, "tools/release.mjs"), ...words, directory]);
  if (code !== 0) throw new Error(stderr);
  return (name: string) => readFileSync(join(directory, name), "utf8");
}

const FLOWS = /^(FlowSchema|PriorityLevelConfiguration) /;
const without = (kinds: RegExp, objects: Record<string, KubeObject>) =>
  Object.fromEntries(Object.entries(objects).filter(([name]) => !kinds.test(name)));

test.each([[[]], ...ALL.map((name) => [[name]]), [ALL]])("holdfast.yaml with %j", async (components) => {
  const file = await release(components);
  const definitions = await kustomized("crds");
  if (components.includes("machines")) definitions.push(...(await kustomized("machines/crds")));
  const expected = byName([...definitions, ...(await kustomized(".", components, IMAGE))]);
  expect(byName(await readByKubectl(file("holdfast.yaml")))).toEqual(expected);
  // Whoever reads it by YAML 1.2 gets the same.
  expect(byName(parseAllDocuments(file("holdfast.yaml")).map((one) => one.toJS()))).toEqual(expected);
  expect(byName(await readByKubectl(file("holdfast-observability.yaml")))).toEqual(
    byName(await kustomized("observability")),
  );
});

test("holdfast.yaml for a server that knows no flows", async () => {
  const file = await release([], ["--without", "flowcontrol"]);
  const expected = byName([...(await kustomized("crds")), ...(await kustomized(".", [], IMAGE))]);
  expect(byName(await readByKubectl(file("holdfast.yaml")))).toEqual(without(FLOWS, expected));
});

test("ipam-components.yaml, but for what clusterctl wants of a provider", async () => {
  const file = await release([]);
  const labelled = ({ metadata, ...rest }: KubeObject): KubeObject => ({
    ...rest,
    metadata: { ...metadata, labels: { ...metadata?.labels, ...PROVIDER } },
  });
  const asProvider = (object: KubeObject): KubeObject => {
    if (object.kind !== "Deployment") return labelled(object);
    const { template } = object.spec;
    const [container] = template.spec.containers;
    const spec = { ...template.spec, containers: [{ ...container, name: "manager" }] };
    return labelled({ ...object, spec: { ...object.spec, template: { ...labelled(template), spec } } });
  };
  const source = byName([...(await kustomized("crds")), ...(await kustomized(".", [], IMAGE))]);
  const ofMachines = Object.values(without(FLOWS, source)).filter(
    ({ metadata }) => !/^holdfast-(node|metadata)$/.test(metadata.name),
  );
  const text = file("ipam-components.yaml").replace(VARIABLE, "$2");
  expect(byName(await readByKubectl(text))).toEqual(byName(ofMachines.map(asProvider)));
});

test("holdfast.rules.yml has the rules of the operator's object", async () => {
  const file = await release([]);
  const rules = (await kustomized("observability")).find(({ kind }) => kind === "PrometheusRule");
  expect(parse(file("holdfast.rules.yml"), { version: "1.1" })).toEqual(rules?.spec);
});
