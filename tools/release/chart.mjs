// The Helm chart, out of deploy/: what a value changes is replaced by a template, and all else is as it stands there.
// See docs/decisions/0071.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { archive } from "./archives.mjs";
import {
  COMPONENTS,
  containersOf,
  DISTRIBUTIONS,
  definitions,
  FLOW_CONTROL,
  installed,
  isFlowControl,
  machineDefinitions,
  observability,
} from "./manifests.mjs";

const HELM = join(import.meta.dirname, "../../deploy/helm");
const NAMESPACE = "holdfast-system";
/**
 * `helm template` without a cluster takes every version that Helm was built with for served: the server's own version
 * counts too.
 */
const SERVES_FLOW_CONTROL = `and (.Capabilities.APIVersions.Has ${JSON.stringify(FLOW_CONTROL)}) (semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version)`;
/** Said before anything is applied. Text of a template in quotes. */
const needs = (condition, text) => `{{- if not (${condition}) }}\n{{- fail ${JSON.stringify(text)} }}\n{{- end }}\n`;
const NEEDS_POLICIES = needs(
  `semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version`,
  "admission.enabled needs ValidatingAdmissionPolicies, which Kubernetes has since 1.30: set it to false",
);
const NEEDS_OPERATOR = needs(
  `.Capabilities.APIVersions.Has "monitoring.coreos.com/v1"`,
  "observability.enabled needs the definitions of the Prometheus operator (monitoring.coreos.com/v1): install it first, or set this to false; helm template knows no cluster, and needs --api-versions monitoring.coreos.com/v1",
);
/** In deploy/, of every container. */
const RESOURCES = { "holdfast-node": "node", "holdfast-controller": "controller" };

/**
 * Text of a template in the place of a value. `lines`: from the indentation in columns. `onlyWith`: the value without
 * which its key is not there.
 */
class Template {
  constructor(lines, onlyWith = null) {
    this.lines = lines;
    this.onlyWith = onlyWith;
  }
}
/** A value, or a part of one, where a component is enabled. */
class Only {
  constructor(component, value) {
    this.component = component;
    this.value = value;
  }
}

const inline = (text) => new Template(() => [text]);
const yamlOf = (path) => new Template((columns) => [`{{- toYaml .Values.${path} | nindent ${columns} }}`]);

/** holdfast-VERSION.tgz, as `helm package` writes it. */
export async function chart({ out, work, version, image, epoch }) {
  const directory = join(work, "chart");
  const root = join(directory, "holdfast");
  mkdirSync(directory, { recursive: true });
  cpSync(HELM, root, { recursive: true });
  const about = {
    apiVersion: "v2",
    name: "holdfast",
    version,
    appVersion: version,
    description: "IPAM for the secondary networks of VMs and pods: addresses that outlive the pod",
    kubeVersion: ">=1.20.0-0",
    annotations: { "artifacthub.io/license": "Apache-2.0" },
  };
  writeFileSync(join(root, "Chart.yaml"), stringify(about));
  const values = readFileSync(join(root, "values.yaml"), "utf8");
  writeFileSync(join(root, "values.yaml"), withImage(values, image, version));
  for (const [name, text] of Object.entries(templates())) writeFileSync(join(root, "templates", name), text);
  await archive(directory, join(out, `holdfast-${version}.tgz`), epoch, ["-I", "gzip -n6"], "holdfast");
}

function withImage(values, image, version) {
  const [name, digest = ""] = image.split("@");
  const [, repository, tag = ""] = /^(.*?)(?::([^:/]+))?$/.exec(name);
  const lines = {
    "repository: holdfast": `repository: ${repository}`,
    'tag: ""': `tag: ${JSON.stringify(tag === version ? "" : tag)}`,
    'digest: ""': `digest: ${JSON.stringify(digest)}`,
  };
  return Object.entries(lines).reduce((text, [from, to]) => text.replace(from, to), values);
}

/** The text of each file of templates/. */
function templates() {
  const [base, ...ofComponents] = [[], ...COMPONENTS.map((name) => [name])].map((names) =>
    // The release's namespace is Helm's to create.
    installed(names).filter(({ kind }) => kind !== "Namespace"),
  );
  const merged = COMPONENTS.reduce(
    (objects, name, index) => objects.map((object) => merge(name, object, find(ofComponents[index], object))),
    base,
  );
  const flowControl = wrapped("flowcontrol.enabled", documents(merged.filter(isFlowControl)));
  const others = merged.filter((object) => !isFlowControl(object));
  const files = {
    "definitions.yaml": wrapped("crds.install", documents(definitions().map(kept))),
    "holdfast.yaml": documents(others.map(withValues)),
    "flowcontrol.yaml": onlyIf(SERVES_FLOW_CONTROL, flowControl),
  };
  COMPONENTS.forEach((name, index) => {
    const added = ofComponents[index].filter((object) => find(base, object) === undefined);
    const first = name === "admission" ? NEEDS_POLICIES : "";
    files[`${name}.yaml`] = wrapped(`${name}.enabled`, first + documents(added.map(withValues)));
  });
  files["observability.yaml"] = wrapped("observability.enabled", NEEDS_OPERATOR + documents(observability()));
  // What else a distribution's component changes is the plugin directory, which is a value.
  for (const [name, values] of Object.entries(DISTRIBUTIONS)) {
    const added = installed([name]).filter((object) => find(installed(), object) === undefined);
    const names = values.map((value) => JSON.stringify(value)).join(" ");
    files[`${name}.yaml`] = onlyIf(`eq .Values.distribution ${names}`, documents(added));
  }
  files["machines-definitions.yaml"] = wrapped(
    "machines.enabled",
    wrapped("crds.install", documents(machineDefinitions().map(kept))),
  );
  return files;
}

const onlyIf = (condition, text) => `{{- if ${condition} }}\n${text}{{- end }}\n`;
const wrapped = (value, text) => onlyIf(`.Values.${value}`, text);
const documents = (objects) => objects.map((object) => `---\n${emit(object, 0).join("\n")}\n`).join("");
const find = (objects, wanted) =>
  objects.find(({ kind, metadata }) => kind === wanted.kind && metadata.name === wanted.metadata.name);

/** Neither an uninstall nor a failed upgrade may take the ledger. */
function kept(object) {
  const { metadata } = object;
  const annotations = { ...metadata.annotations, "helm.sh/resource-policy": "keep" };
  return { ...object, metadata: { ...metadata, annotations } };
}

/** `base` with what a component adds to it, marked. Components only add: to lists at their end, and keys. */
function merge(component, base, changed) {
  if (Array.isArray(base)) {
    const own = base.filter((one) => !(one instanceof Only));
    const added = changed.slice(own.length).map((one) => new Only(component, one));
    let index = 0;
    const kept = base.map((one) => (one instanceof Only ? one : merge(component, one, changed[index++])));
    return [...kept, ...added];
  }
  if (typeof base === "object" && base !== null) {
    const entries = Object.entries(changed).map(([key, value]) => {
      if (!(key in base)) return [key, new Only(component, value)];
      return [key, base[key] instanceof Only ? base[key] : merge(component, base[key], value)];
    });
    const others = Object.entries(base).filter(([key]) => !(key in changed));
    return Object.fromEntries([...entries, ...others]);
  }
  if (base !== changed) throw new Error(`component ${component} changes ${base} to ${changed}`);
  return base;
}

/** An object with templates in the places that values.yaml names. */
function withValues(object) {
  const pod = object.spec?.template?.spec;
  if (pod === undefined) return object;
  for (const container of containersOf(object)) {
    container.image = inline('{{ include "holdfast.image" . }}');
    container.imagePullPolicy = inline("{{ .Values.image.pullPolicy }}");
  }
  pod.imagePullSecrets = unlessEmpty("image.pullSecrets");
  const name = RESOURCES[object.metadata.name];
  if (name === undefined) return object;
  pod.containers[0].resources = yamlOf(`${name}.resources`);
  pod.tolerations = yamlOf(`${name}.tolerations`);
  pod.nodeSelector = unlessEmpty(`${name}.nodeSelector`);
  if (object.kind === "Deployment") object.spec.replicas = new Template(() => ["{{ . }}"], "controller.replicas");
  for (const volume of pod.volumes ?? [])
    if (volume.name === "plugins") volume.hostPath.path = inline('{{ include "holdfast.pluginDirectory" . }}');
  return object;
}

/** A key that is only there where its value is not empty. */
function unlessEmpty(path) {
  return new Template((columns) => [`{{- toYaml . | nindent ${columns} }}`], path);
}

/** The lines of a value in block style. */
function emit(value, columns) {
  const pad = " ".repeat(columns);
  if (value instanceof Template)
    return value.lines(columns).map((line) => (line.startsWith("{{-") ? line : pad + line));
  if (Array.isArray(value)) {
    if (value.length === 0) return [`${pad}[]`];
    return value.flatMap((one) =>
      one instanceof Only ? conditional(one, (inner) => item(inner, columns)) : item(one, columns),
    );
  }
  if (typeof value !== "object" || value === null) return [pad + scalar(value)];
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  if (entries.length === 0) return [`${pad}{}`];
  return entries.flatMap(([key, one]) => {
    if (one instanceof Only) return conditional(one, (inner) => entry(key, inner, columns));
    if (one instanceof Template && one.onlyWith !== null)
      return [`{{- with .Values.${one.onlyWith} }}`, ...entry(key, one, columns), "{{- end }}"];
    return entry(key, one, columns);
  });
}

const conditional = ({ component, value }, lines) => [
  `{{- if .Values.${component}.enabled }}`,
  ...lines(value),
  "{{- end }}",
];

function entry(key, value, columns) {
  const pad = " ".repeat(columns);
  const lines = emit(value, columns + 2);
  const isShort = isScalar(value) || (lines.length === 1 && !lines[0].startsWith("{{-"));
  return isShort && !isNested(value)
    ? [`${pad}${scalar(key)}: ${lines[0].trim()}`]
    : [`${pad}${scalar(key)}:`, ...lines];
}

function item(value, columns) {
  const pad = " ".repeat(columns);
  const [first, ...rest] = emit(value, columns + 2);
  // A template of several lines would need the dash on a line of its own; none is an item.
  return [`${pad}- ${first.trimStart()}`, ...rest];
}

const isScalar = (value) => typeof value !== "object" || value === null;
const isNested = (value) => !isScalar(value) && !(value instanceof Template) && Object.keys(value).length > 0;

/** JSON is YAML. What looks like a template is none (alerts have templates of Prometheus). */
function scalar(value) {
  const text = typeof value === "string" ? plainOrQuoted(value) : JSON.stringify(value);
  return text.replaceAll("{{", '{{ "{{" }}').replaceAll(NAMESPACE, "{{ .Release.Namespace }}");
}

function plainOrQuoted(text) {
  return /^[A-Za-z/][\w./ -]*$/.test(text) &&
    !/^(y|n|yes|no|on|off|true|false|null)$/i.test(text) &&
    !text.endsWith(" ")
    ? text
    : JSON.stringify(text);
}
