/** The Helm chart of a release, rendered by the engine that Helm has: it says what kustomize says. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { skippedFor } from "../harness/needs.ts";
import { byName, kustomized, readByKubectl } from "./kustomize.ts";

const ROOT = join(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const KEEP = "helm.sh/resource-policy";
const { isFlowControl, FLOW_CONTROL } = (await import(`${ROOT}/tools/release/manifests.mjs`)) as {
  isFlowControl: (object: KubeObject) => boolean;
  FLOW_CONTROL: string;
};
const OPERATOR = "monitoring.coreos.com/v1";

type Values = { readonly [key: string]: unknown };

const hasGo = (await run("go", ["version"]).catch(() => ({ code: 1 }))).code === 0;
const reason = skippedFor(hasGo ? null : "needs golang-go, whose template engine is Helm's");
let directory: string;
let chart: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-chart-"));
  const release = join(ROOT, "tools/release.mjs");
  const words = [
    "--only",
    "manifests",
    "--image",
    "registry.example:5000/net/holdfast:one",
    join(directory, "out"),
  ];
  expect(await run(process.execPath, [release, ...words])).toMatchObject({ code: 0 });
  execFileSync("tar", ["-C", directory, "-xzf", join(directory, `out/holdfast-${version}.tgz`)]);
  chart = join(directory, "holdfast");
  if (reason !== null) return;
  const env = { ...process.env, GOCACHE: join(directory, "go"), GO111MODULE: "off" };
  execFileSync("go", ["build", "-o", join(directory, "render"), "test/deploy/helm/render.go"], {
    cwd: ROOT,
    env,
  });
}, 300_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** As Helm does: maps are merged, everything else is replaced. */
function merged(values: Values, more: Values): Values {
  const isMap = (value: unknown): value is Values =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const entries = Object.entries(more).map(([key, value]) => {
    const own = values[key];
    return [key, isMap(value) && isMap(own) ? merged(own, value) : value] as const;
  });
  return { ...values, ...Object.fromEntries(entries) };
}

/** `holdfast:` of deploy/ as the values' image: what is compared is all the rest. */
const LIKE_DEPLOY = { image: { repository: "holdfast", tag: version } };

function render(
  given: Values = {},
  namespace = "holdfast-system",
  APIVersions: readonly string[] = [FLOW_CONTROL, OPERATOR],
  KubeVersion = "v1.36.2",
): { objects: KubeObject[]; notes: string; text: string } {
  const about = parse(readFileSync(join(chart, "Chart.yaml"), "utf8"));
  const values = merged(parse(readFileSync(join(chart, "values.yaml"), "utf8")), merged(LIKE_DEPLOY, given));
  const input = JSON.stringify({
    Values: values,
    Release: { Name: "holdfast", Namespace: namespace },
    Chart: { Name: about.name, Version: about.version, AppVersion: about.appVersion },
    APIVersions,
    KubeVersion,
  });
  const rendered = execFileSync(join(directory, "render"), [chart], {
    input,
    stdio: "pipe",
    encoding: "utf8",
  });
  const files = JSON.parse(rendered);
  const { "NOTES.txt": notes, ...manifests } = files as Record<string, string>;
  const objects = Object.values(manifests).flatMap((text) =>
    parseAllDocuments(text)
      .map((one) => one.toJS())
      .filter((one) => one !== null),
  );
  return { objects, notes: notes as string, text: Object.values(manifests).join("") };
}

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
      const of = async (name: string, directory: string) =>
        components.includes(name) ? kustomized(directory) : [];
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
  const podOf = (given: Values, name = "holdfast-node") =>
    workload(render(given).objects, name).spec.template.spec;

  test("an image by tag, by digest, from a registry with credentials", () => {
    expect(podOf({ image: { repository: "r.example/h", tag: "" } }).containers[0].image).toBe(
      `r.example/h:${version}`,
    );
    const digest = `sha256:${"0".repeat(64)}`;
    const pod = podOf({
      image: { repository: "r.example/h", digest, pullPolicy: "Always", pullSecrets: [{ name: "s" }] },
    });
    for (const one of [...pod.initContainers, ...pod.containers])
      expect(one).toMatchObject({ image: `r.example/h@${digest}`, imagePullPolicy: "Always" });
    expect(pod.imagePullSecrets).toEqual([{ name: "s" }]);
  });

  test.each([
    ["default", "/opt/cni/bin"],
    ["k3s", "/var/lib/rancher/k3s/data/cni"],
    ["k3s-old", "/var/lib/rancher/k3s/data/current/bin"],
    ["openshift", "/var/lib/cni/bin"],
    ["microk8s", "/var/snap/microk8s/current/opt/cni/bin"],
  ])("the plugin directory of %s", (distribution, path) => {
    const plugins = (given: Values) =>
      podOf(given).volumes.find(({ name }: { name: string }) => name === "plugins");
    expect(plugins({ distribution }).hostPath.path).toBe(path);
    expect(plugins({ distribution, pluginDirectory: "/srv/cni" }).hostPath.path).toBe("/srv/cni");
  });

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
    expect([
      flowsIn("v1.28.15"),
      flowsIn("v1.28.0-gke.1"),
      flowsIn("v1.29.0"),
      flowsIn("v1.29.3-eks-1"),
    ]).toEqual([0, 0, 8, 8]);
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
    expect(accepts({ node: { resources: { limits: { memory: "1Gi", cpu: 2 } } }, distribution: "k3s" })).toBe(
      true,
    );
    expect(accepts({ image: { repository: "localhost:5000/holdfast" } })).toBe(true);
  });

  test.each([
    ["a misspelt key", { contoller: {} }],
    ["a misspelt key of a part", { metadata: { enable: true } }],
    ["a distribution that is not known", { distribution: "talos" }],
    ["a tag in the repository", { image: { repository: "holdfast:1.0@sha256:0" } }],
    ["a relative directory", { pluginDirectory: "opt/cni/bin" }],
    ["a word for a switch", { admission: { enabled: "yes" } }],
  ])("refuses %s", (_what, given) => {
    expect(check()(given)).not.toBe(true);
  });

  test("every value is in the templates", () => {
    const templates = execFileSync(
      "cat",
      [join(chart, "templates")]
        .map((path) => `${path}/holdfast.yaml`)
        .concat(`${chart}/templates/_helpers.tpl`),
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
