import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { until } from "./wait.ts";

/** Kinds whose plural is not the kind in lower case with an s. */
const PLURALS: Readonly<Record<string, string>> = {
  NetworkAttachmentDefinition: "network-attachment-definitions",
  PriorityClass: "priorityclasses",
  IPAddress: "ipaddresses",
  ValidatingAdmissionPolicy: "validatingadmissionpolicies",
};
const CLUSTER_SCOPED = new Set([
  "ClusterRole",
  "ClusterRoleBinding",
  "CustomResourceDefinition",
  "FlowSchema",
  "IPAllocation",
  "IPNetwork",
  "Namespace",
  "Node",
  "PriorityClass",
  "PriorityLevelConfiguration",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionPolicyBinding",
]);
const CONFLICT = 409;

/** Each file is parsed once: the shipped definitions are read for every server in memory. */
const PARSED = new Map<string, KubeObject[]>();

/**
 * The objects of a YAML file as kubectl reads it, the caller's own. Throws an error with the file's name when it cannot
 * be parsed.
 */
export function readManifests(file: string): KubeObject[] {
  const objects = PARSED.get(file) ?? parsed(file);
  PARSED.set(file, objects);
  return structuredClone(objects);
}

function parsed(file: string): KubeObject[] {
  return parseAllDocuments(readFileSync(file, "utf8"), { version: "1.1" }).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw new Error(`${file}: ${error.message}`);
    return document.toJS();
  });
}

/** The objects of every YAML file right in a directory, kustomizations left out. */
export function readManifestDirectory(directory: string): KubeObject[] {
  const files = readdirSync(directory).filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml");
  return files.sort().flatMap((name) => readManifests(join(directory, name)));
}

/** The path of the collection that an object belongs to. */
export function collectionOf(object: KubeObject): string {
  const { apiVersion, kind, metadata } = object;
  const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const plural = PLURALS[kind] ?? `${kind.toLowerCase()}s`;
  const scope = CLUSTER_SCOPED.has(kind) ? "" : `/namespaces/${metadata.namespace ?? "default"}`;
  return `${root}${scope}/${plural}`;
}

/** Creates objects in their order; those that exist are merged with what is given. Throws when one is refused. */
export async function applyObjects(api: KubeApi, objects: readonly KubeObject[]): Promise<void> {
  for (const object of objects) {
    const collection = collectionOf(object);
    const answer = await api.call("POST", collection, object);
    if (answer.status === CONFLICT) await api.patch(`${collection}/${object.metadata.name}`, object);
    else if (answer.status >= 300)
      throw new Error(`${object.kind} ${object.metadata.name}: ${JSON.stringify(answer.body)}`);
  }
}

/** Waits until every one of these CustomResourceDefinitions is established and lists its objects. */
export async function definitionsServed(api: KubeApi, definitions: readonly KubeObject[]): Promise<void> {
  for (const { metadata, spec } of definitions) {
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${metadata.name}`;
    const collection = `/apis/${spec.group}/${spec.versions[0].name}/${spec.names.plural}?limit=1`;
    await until(async () => {
      const conditions: KubeObject[] = (await api.get(path)).status?.conditions ?? [];
      if (!conditions.some(({ type, status }) => type === "Established" && status === "True")) return false;
      return (await api.call("GET", collection)).status === 200;
    }, `the definition ${metadata.name}`);
  }
}
