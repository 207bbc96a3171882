// What is applied to a cluster, out of deploy/, so that nothing is written twice.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";

const DEPLOY = join(import.meta.dirname, "../../deploy");
/** Every component of deploy/, in the order in which they are added. */
export const COMPONENTS = ["metadata", "admission", "machines"];
/**
 * Components for a cluster of one distribution. A chart has them by its value `distribution`: the component's name, or
 * these.
 */
export const DISTRIBUTIONS = { openshift: ["openshift", "microshift"], gke: ["gke"] };
const KNOWN = [...COMPONENTS, ...Object.keys(DISTRIBUTIONS)];
/** As kubectl and Helm read and write YAML: 0440 is an octal number, and a text "yes" needs quotes. */
const YAML = { version: "1.1" };

const read = (file) => parse(readFileSync(join(DEPLOY, file), "utf8"), YAML);
const objectsOf = (file) =>
  parseAllDocuments(readFileSync(join(DEPLOY, file), "utf8"), YAML).map((document) => document.toJS());

/** The documents of a file that kubectl applies. */
export function documents(objects) {
  return objects.map((object) => stringify(object, YAML)).join("---\n");
}

/** The definitions of the ledger. */
export function definitions() {
  const files = readdirSync(join(DEPLOY, "crds")).filter((name) => name !== "kustomization.yaml");
  return files.sort().flatMap((name) => objectsOf(`crds/${name}`));
}

/** What only Kubernetes 1.29 and later knows: deploy/flowcontrol.yaml. */
export const FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1";
export const isFlowControl = ({ apiVersion }) => apiVersion === FLOW_CONTROL;

/** Everything but the definitions, as kustomize builds it with these components. */
export function installed(components = []) {
  const objects = read("kustomization.yaml").resources.flatMap(objectsOf);
  for (const name of components) {
    if (!KNOWN.includes(name)) throw new Error(`there is no component ${name}: expected some of ${KNOWN.join(", ")}`);
    const component = read(`${name}/kustomization.yaml`);
    objects.push(...component.resources.flatMap((file) => objectsOf(`${name}/${file}`)));
    for (const { target, patch } of component.patches ?? []) {
      const object = objects.find(({ kind, metadata }) => kind === target.kind && metadata.name === target.name);
      for (const operation of parse(patch, YAML)) change(object, operation);
    }
  }
  return objects;
}

/** One operation of a JSON patch; only "add" and "replace" are used. */
function change(object, { op, path, value }) {
  if (op !== "add" && op !== "replace") throw new Error(`${op} ${path}: expected "add" or "replace"`);
  const keys = path.split("/").slice(1);
  const last = keys.pop();
  const parent = keys.reduce((at, key) => at[key], object);
  if (last === "-") parent.push(value);
  else parent[last] = value;
}

/** The containers of a workload, init containers too. */
export function containersOf({ spec }) {
  const pod = spec?.template?.spec;
  return [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])];
}

/** `kubectl apply -f` of this installs Holdfast: the namespace and the definitions come before what needs them. */
export function oneFile({ image, components, version, flowControl = true }) {
  const own = installed(components).filter((object) => flowControl || !isFlowControl(object));
  const definedByMachines = components.includes("machines") ? machineDefinitions() : [];
  const [namespaces, others] = [true, false].map((is) => own.filter(({ kind }) => (kind === "Namespace") === is));
  for (const object of own)
    for (const container of containersOf(object)) container.image = container.image.replace(/.*/, image);
  const objects = [...namespaces, ...definitions(), ...definedByMachines, ...others];
  const what = components.length === 0 ? "" : ` with ${components.join(", ")}`;
  const head = `# Holdfast ${version}${what}, image ${image}: kubectl apply -f holdfast.yaml
# To remove it and keep its ledger: kubectl delete -f holdfast.yaml -l '!ipam.holdfast.dev/ledger' (docs/uninstall.md)
`;
  return head + documents(objects);
}

/** Metal3's kinds, for the component `machines`. */
export function machineDefinitions() {
  return read("machines/crds/kustomization.yaml").resources.flatMap((file) => objectsOf(`machines/crds/${file}`));
}

/** Scraping and alerts in the kinds of the Prometheus operator. */
export function observability() {
  return read("observability/kustomization.yaml").resources.flatMap((file) => objectsOf(`observability/${file}`));
}

/** They stand apart: where the operator is not installed, kubectl refuses this file alone. */
export function observabilityFile(version) {
  return `# Scraping and alerts of Holdfast ${version}, where the Prometheus operator is installed (docs/alerts.md):
# kubectl apply -f holdfast-observability.yaml, after holdfast.yaml
${documents(observability())}`;
}

/** The alerts as a file for any Prometheus. */
export function alertRules() {
  const [{ spec }] = objectsOf("observability/rules.yaml");
  return stringify(spec, YAML);
}
