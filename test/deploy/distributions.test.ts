import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { PLUGIN_DIRECTORIES } from "../../admin/plugin-directories.ts";
import { sectionOf } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { skippedFor } from "../harness/needs.ts";
import { DISTRIBUTIONS, type Distribution, problemsOf } from "./distributions.ts";
import { RenderedChart, whyNoRenderer } from "./helm/rendered-chart.ts";

/** The manifests and the chart against what each distribution says of pods such as ours. */

const ROOT = join(import.meta.dirname, "../..");
const { installed, DISTRIBUTIONS: COMPONENTS_OF } = (await import(`${ROOT}/tools/release/manifests.mjs`)) as {
  installed: (components?: string[]) => KubeObject[];
  DISTRIBUTIONS: Readonly<Record<string, readonly string[]>>;
};
const { clusterctlFiles } = (await import(`${ROOT}/tools/release/clusterctl.mjs`)) as {
  clusterctlFiles: (options: object) => Readonly<Record<"ipam-components.yaml", string>>;
};
const EVERYTHING = ["metadata", "admission", "machines"];
const ALL = Object.entries(DISTRIBUTIONS);
const rulesOf = (name: string) => DISTRIBUTIONS[name] as Distribution;
const levelOf = (objects: readonly KubeObject[]) =>
  objects.find(({ kind }) => kind === "Namespace")?.metadata.labels["pod-security.kubernetes.io/enforce"];

const reason = skippedFor(whyNoRenderer);
describe.skipIf(reason !== null)("the chart", () => {
  let chart: RenderedChart;
  beforeAll(async () => {
    chart = await RenderedChart.make("registry.example/holdfast:one");
  }, 300_000);
  afterAll(() => chart?.remove());

  test.each(ALL)("starts on %s, with all components and with none", (distribution, rules) => {
    for (const components of [[], [...EVERYTHING, "observability"]]) {
      const enabled = Object.fromEntries(components.map((name) => [name, { enabled: true }]));
      const { objects, notes } = chart.render({ distribution, ...enabled });
      // Helm creates the namespace, and the notes say what label it needs.
      const level = /pod-security\.kubernetes\.io\/enforce=(\w+)/.exec(notes)?.[1];
      expect(problemsOf(rules, objects, level)).toEqual([]);
    }
  });

  test("knows every distribution of the model, and no other", () => {
    const schema = JSON.parse(readFileSync(join(chart.path, "values.schema.json"), "utf8"));
    expect(schema.properties.distribution.enum.sort()).toEqual(["default", ...Object.keys(DISTRIBUTIONS)].sort());
  });
});

test.each([
  ["openshift", ["openshift"]],
  ["gke", ["gke"]],
  ...ALL.filter(([, { plugins, scc }]) => plugins === "/opt/cni/bin" && !scc).map(([name]) => [name, []] as const),
] as const)("the manifests start on %s with the components %j", (name, components) => {
  for (const more of [[], EVERYTHING]) {
    const objects = installed([...components, ...more]);
    expect(problemsOf(rulesOf(name), objects, levelOf(objects))).toEqual([]);
  }
});

/** As clusterctl has them, with its variables filled in. */
function providerObjects(components: readonly string[]): KubeObject[] {
  const files = clusterctlFiles({ image: "registry.example/holdfast:one", version: "1.0.0", components });
  const text = files["ipam-components.yaml"].replace(/\$\{\w+:=([^}]*)\}/g, "$1");
  return parseAllDocuments(text, { version: "1.1" }).map((one) => one.toJS());
}

test.each(ALL)("what clusterctl installs starts on %s, with its component", (name, rules) => {
  const own = Object.entries(COMPONENTS_OF).filter(([, names]) => names.includes(name));
  const objects = providerObjects(own.map(([component]) => component));
  expect(objects.some(({ kind }) => kind === "Deployment")).toBe(true);
  expect(problemsOf(rules, objects, levelOf(objects))).toEqual([]);
});

test("what clusterctl installs has nothing of the daemons, whatever the components", () => {
  const components = [...EVERYTHING, ...Object.keys(COMPONENTS_OF)];
  expect(JSON.stringify(providerObjects(components))).not.toMatch(/holdfast-(openshift-)?(node|metadata)"/);
});

test("the manifests start where only /var, /run, /opt/cni and /etc/cni can be written", () => {
  const writable = ["/var", "/run", "/opt/cni", "/etc/cni"];
  const least = {
    title: "",
    plugins: "/opt/cni/bin",
    writable,
    runIsVarRun: true,
    selinux: true,
    sources: [],
  };
  expect(problemsOf(least, installed(EVERYTHING), undefined)).toEqual([]);
});

describe("the model refuses what nodes and admission refuse", () => {
  const daemons = (objects: readonly KubeObject[]) =>
    objects.find(({ kind, metadata }) => kind === "DaemonSet" && metadata.name === "holdfast-node") as KubeObject;
  const volume = (objects: readonly KubeObject[], name: string) =>
    daemons(objects).spec.template.spec.volumes.find((one: KubeObject) => one.name === name);
  const judged = (name: string, change: (objects: KubeObject[]) => void = () => {}) => {
    const objects = structuredClone(installed());
    change(objects);
    return problemsOf(rulesOf(name), objects, levelOf(objects));
  };

  test("a directory below a read-only /etc", () => {
    const settings = (objects: KubeObject[]) => {
      Object.assign(volume(objects, "settings"), {
        hostPath: { path: "/etc/holdfast", type: "DirectoryOrCreate" },
      });
    };
    expect(judged("talos", settings)).toEqual(["holdfast-node: volume settings: /etc/holdfast cannot be created"]);
    expect(judged("kubeadm", settings)).toEqual([]);
  });

  test("Talos: /run, which the kubelet has for itself, and a namespace without a label", () => {
    const run = (objects: KubeObject[]) => {
      volume(objects, "namespaces").hostPath.path = "/run/netns";
      objects.splice(0, objects.length, ...objects.filter(({ kind }) => kind !== "Namespace"));
    };
    expect(judged("talos", run)).toEqual([
      "holdfast-node: volume namespaces: the kubelet has another /run/netns",
      "the namespace is held to baseline, which host paths and the host's network are beyond",
    ]);
  });

  test.each(["openshift", "microshift"])("%s: accounts that may use nothing but restricted-v2", (name) => {
    const said = judged(name).join("\n");
    expect(said).toContain(
      "holdfast-node: holdfast-node may use restricted-v2 only, which refuses host paths, the host's network, a user outside of the namespace's range, a type of SELinux, capabilities",
    );
    expect(said).toContain(
      "holdfast-controller: holdfast-controller may use restricted-v2 only, which refuses the host's network, a user outside of the namespace's range",
    );
  });

  test("GKE: /opt, another directory than the runtime's, and critical pods without a quota", () => {
    expect(judged("gke")).toEqual([
      "holdfast-node: volume plugins: /opt/cni/bin cannot be created",
      "holdfast-node: the runtime looks for plugins in /home/kubernetes/bin, not /opt/cni/bin",
      "holdfast-node: no quota of the namespace allows system-node-critical",
      "holdfast-controller: no quota of the namespace allows system-cluster-critical",
    ]);
  });

  test("SELinux: a container that is confined", () => {
    const confined = (objects: KubeObject[]) => {
      for (const one of daemons(objects).spec.template.spec.containers) one.securityContext.seLinuxOptions = undefined;
    };
    expect(judged("fedora-coreos", confined)).toEqual(["holdfast-node: SELinux keeps daemon from the node's files"]);
  });
});

test("holdfast doctor looks for plugins where the rows say", () => {
  const known = new Set(ALL.map(([, { plugins }]) => plugins));
  expect(
    Object.values(PLUGIN_DIRECTORIES)
      .flat()
      .filter((one) => !known.has(one)),
  ).toEqual([]);
});

test("docs/kubernetes.md has a row for each distribution, with its directory and where that stands", () => {
  const rows = [
    ...sectionOf("docs/kubernetes.md", "Distributions", 3).matchAll(
      /^\| ([^|]+?) +\| `(\w[\w-]*)` +\| `(\/[^`]+)` +\|/gm,
    ),
  ];
  expect(rows.map(([, title, value, plugins]) => [value, title, plugins])).toEqual(
    ALL.map(([value, { title, plugins }]) => [value, title, plugins]),
  );
  for (const [name, { sources }] of ALL) expect(sources.length, name).toBeGreaterThan(0);
});
