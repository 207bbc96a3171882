/** The Helm chart of a release, rendered by the engine that Helm has: it says what kustomize says. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { KubeObject } from "../harness/kube-api.ts";
import { skippedFor } from "../harness/needs.ts";
import { merged, RenderedChart, type Values, whyNoRenderer } from "./helm/rendered-chart.ts";
import { byName, kustomized, readByKubectl } from "./kustomize.ts";

const ROOT = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const KEEP = "helm.sh/resource-policy";
const { isFlowControl, FLOW_CONTROL } = (await import(`${ROOT}/tools/release/manifests.mjs`)) as {
  isFlowControl: (object: KubeObject) => boolean;
  FLOW_CONTROL: string;
};
const OPERATOR = "monitoring.coreos.com/v1";

const reason = skippedFor(whyNoRenderer);
let rendered: RenderedChart;
let chart: string;
beforeAll(async () => {
  rendered = await RenderedChart.make("registry.example:5000/net/holdfast:one");
  chart = rendered.path;
}, 300_000);
afterAll(() => rendered?.remove());

const render: RenderedChart["render"] = (...values) => rendered.render(...values);

const withKeep = (object: KubeObject) => ({
  ...object,
  metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, [KEEP]: "keep" } },
});

describe.skipIf(reason !== null)("the chart", () => {
  const ALL = ["metadata", "admission", "machines", "observability"];
  test.each([[[]], ...ALL.map((name) => [[name]]), [ALL]])(
    "with %j is what kustomize builds, in every field",
    async (components) => {
      const given = Object.fromEntries(components.map((name) => [name, { enabled: true }]));
      const of = async (name: string, directory: string) => (components.includes(name) ? kustomized(directory) : []);
      const definitions = [...(await kustomized("crds")), ...(await of("machines", "machines/crds"))];
      const own = await kustomized(
        ".",
        components.filter((name) => name !== "observability"),
      );
      const others = [...own, ...(await of("observability", "observability"))];
      const expected = [...definitions.map(withKeep), ...others.filter(({ kind }) => kind !== "Namespace")];
      expect(byName(await readByKubectl(render(given).text))).toEqual(byName(expected));
    },
  );

  test("a component that needs what the cluster has not says so before anything is applied", () => {
    const refused = (given: Values, versions: readonly string[], kubernetes: string) => {
      try {
        render(given, "holdfast-system", versions, kubernetes);
        return "";
      } catch (error) {
        return (error as { stderr: string }).stderr;
      }
    };
    const observability = { observability: { enabled: true } };
    expect(refused(observability, [FLOW_CONTROL], "v1.36.2")).toContain(
      "observability.enabled needs the definitions of the Prometheus operator (monitoring.coreos.com/v1)",
    );
    expect(refused(observability, [FLOW_CONTROL, OPERATOR], "v1.36.2")).toBe("");
    const admission = { admission: { enabled: true } };
    expect(refused(admission, [FLOW_CONTROL], "v1.29.8")).toContain("admission.enabled needs");
    expect(refused(admission, [FLOW_CONTROL], "v1.30.0")).toBe("");
    expect(refused({}, [], "v1.20.0")).toBe("");
  });

  test("without changes it has the image that the release was made for", () => {
    const values = parse(readFileSync(join(chart, "values.yaml"), "utf8"));
    expect(values.image).toMatchObject({ repository: "registry.example:5000/net/holdfast", tag: "one" });
  });

  const workload = (objects: readonly KubeObject[], name: string) =>
    objects.find((one) => one.metadata.name === name && one.spec?.template !== undefined) as KubeObject;
  const podOf = (given: Values, name = "holdfast-node") => workload(render(given).objects, name).spec.template.spec;

  test("an image by tag, by digest, from a registry with credentials", () => {
    expect(podOf({ image: { repository: "r.example/h", tag: "" } }).containers[0].image).toBe(`r.example/h:${version}`);
    const digest = `sha256:${"0".repeat(64)}`;
    const pod = podOf({
      image: { repository: "r.example/h", digest, pullPolicy: "Always", pullSecrets: [{ name: "s" }] },
    });
    for (const one of [...pod.initContainers, ...pod.containers])
      expect(one).toMatchObject({ image: `r.example/h@${digest}`, imagePullPolicy: "Always" });
    expect(pod.imagePullSecrets).toEqual([{ name: "s" }]);
  });

  test("a plugin directory of one's own counts", () => {
    const own = podOf({ distribution: "k3s", pluginDirectory: "/srv/cni" });
    expect(own.volumes.find(({ name }: { name: string }) => name === "plugins").hostPath.path).toBe("/srv/cni");
  });

  test.each(["openshift", "gke"])(
    "for distribution %s is what kustomize builds with its component",
    async (distribution) => {
      const own = (await kustomized(".", [distribution])).filter(({ kind }) => kind !== "Namespace");
      const expected = [...(await kustomized("crds")).map(withKeep), ...own];
      expect(byName(await readByKubectl(render({ distribution }).text))).toEqual(byName(expected));
    },
  );

  test("resources, replicas, node selectors and tolerations", () => {
    const resources = { requests: { cpu: "1" }, limits: { memory: "1Gi" } };
    const more = { resources, nodeSelector: { a: "b" }, tolerations: [] };
    const { objects } = render({ node: more, controller: { ...more, replicas: 1 } });
    for (const name of ["holdfast-node", "holdfast-controller"]) {
      const { containers, nodeSelector, tolerations } = workload(objects, name).spec.template.spec;
      expect(containers[0].resources).toEqual({ ...resources, requests: { cpu: "1", memory: "128Mi" } });
      expect({ nodeSelector, tolerations }).toEqual({ nodeSelector: { a: "b" }, tolerations: [] });
    }
    expect(workload(objects, "holdfast-controller").spec.replicas).toBe(1);
  });

  test("the objects of API Priority and Fairness may be left out, and are where the server does not know them", () => {
    const flowsOf = ({ objects }: { objects: KubeObject[] }) => objects.filter(isFlowControl).length;
    expect(flowsOf(render())).toBe(8);
    expect(flowsOf(render({ flowcontrol: { enabled: false } }))).toBe(0);
    expect(flowsOf(render({}, "holdfast-system", ["flowcontrol.apiserver.k8s.io/v1beta3"]))).toBe(0);
    // Without a cluster, `helm template --kube-version` lists every API version that Helm knows.
    const flowsIn = (version: string) => flowsOf(render({}, "holdfast-system", [FLOW_CONTROL], version));
    expect([flowsIn("v1.28.15"), flowsIn("v1.28.0-gke.1"), flowsIn("v1.29.0"), flowsIn("v1.29.3-eks-1")]).toEqual([
      0, 0, 8, 8,
    ]);
  });

  test("another namespace is the release's everywhere, and the definitions may be left out", () => {
    const { objects, notes } = render({ crds: { install: false }, metadata: { enabled: true } }, "network");
    expect(JSON.stringify(objects)).not.toContain("holdfast-system");
    expect(objects.filter(({ kind }) => kind === "CustomResourceDefinition")).toEqual([]);
    expect(notes).toContain("kubectl -n network create secret generic holdfast-metadata");
    const alone = render({ crds: { install: false } }, "network");
    expect(alone.notes).not.toContain("secret");
  });
});

describe("the schema of the values", () => {
  const check = () => {
    const schema = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8"));
    const validate = new Ajv({ allowUnionTypes: true }).compile(schema);
    const values = parse(readFileSync(join(chart, "values.yaml"), "utf8"));
    return (given: Values) => validate(merged(values, given)) || validate.errors;
  };

  test("takes the defaults, and a value of each kind", () => {
    const accepts = check();
    expect(accepts({})).toBe(true);
    expect(accepts({ node: { resources: { limits: { memory: "1Gi", cpu: 2 } } }, distribution: "k3s" })).toBe(true);
    expect(accepts({ image: { repository: "localhost:5000/holdfast" } })).toBe(true);
  });

  test.each([
    ["a misspelt key", { contoller: {} }],
    ["a misspelt key of a part", { metadata: { enable: true } }],
    ["a distribution that is not known", { distribution: "swarm" }],
    ["a tag in the repository", { image: { repository: "holdfast:1.0@sha256:0" } }],
    ["a relative directory", { pluginDirectory: "opt/cni/bin" }],
    ["a word for a switch", { admission: { enabled: "yes" } }],
  ])("refuses %s", (_what, given) => {
    expect(check()(given)).not.toBe(true);
  });

  test("every value is in the templates", () => {
    const templates = execFileSync(
      "cat",
      [join(chart, "templates")].map((path) => `${path}/holdfast.yaml`).concat(`${chart}/templates/_helpers.tpl`),
      { encoding: "utf8" },
    );
    const values = parse(readFileSync(join(chart, "values.yaml"), "utf8"));
    const paths = Object.entries(values).flatMap(([key, value]) =>
      typeof value === "object" && value !== null ? Object.keys(value).map((one) => `${key}.${one}`) : [key],
    );
    for (const path of paths.filter((one) => !/^(crds|flowcontrol|admission|observability)\./.test(one)))
      expect(templates).toContain(`.Values.${path}`);
  });
});
