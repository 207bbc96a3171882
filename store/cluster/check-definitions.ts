import { isObject } from "../../ipam/definition/definition-keys.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { objectPath } from "../../kube/objects.ts";

const DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/** The definitions of deploy/crds, with the fields that were added after the first release. */
const DEFINITIONS: readonly (readonly [name: string, fields: readonly string[]])[] = [
  ["ipallocations.ipam.holdfast.dev", []],
  ["ipnetworks.ipam.holdfast.dev", ["spec.definedIn", "spec.sharedWith", "status.importedFrom"]],
];
const LOOK_MS = 5_000;

/**
 * A definition that is being deleted accepts no new object, and the finalizers of its objects keep it in that state. A
 * definition of an earlier release drops fields that this one writes: the owner of a network, or what is imported, is
 * lost at once. A definition that may not be read is not checked: that permission was added after the first release.
 */
export async function checkDefinitions(api: KubeApi): Promise<Finding[]> {
  const objects = new ObjectClient(api);
  const findings: Finding[] = [];
  for (const [name, fields] of DEFINITIONS) {
    try {
      const read = await objects.tryGet(
        objectPath(DEFINITIONS_PATH, name),
        api.clock.monotonicMs() + LOOK_MS,
      );
      if (read.kind !== "present") continue;
      const { object } = read;
      if (object.metadata.deletionTimestamp !== undefined) findings.push(beingDeleted(name));
      const dropped = fields.filter((field) => drops(object, field));
      if (dropped.length > 0) findings.push(earlier(name, dropped));
    } catch (error) {
      if ((error as Error).name !== "ClusterProblem") throw error;
    }
  }
  return findings;
}

/** Whether no version of the definition has a field. A version without a schema keeps every field. */
function drops(definition: unknown, field: string): boolean {
  const versions: unknown = at(definition, ["spec", "versions"]);
  const schemas = (Array.isArray(versions) ? versions : []).map((one) =>
    at(one, ["schema", "openAPIV3Schema"]),
  );
  const path = field.split(".").flatMap((key) => ["properties", key]);
  return schemas.length > 0 && schemas.every((one) => one !== undefined && at(one, path) === undefined);
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((inner, key) => (isObject(inner) ? inner[key] : undefined), value);
}

function earlier(name: string, dropped: readonly string[]): Finding {
  return {
    invariant: "definition",
    message: `the installed definition ${name} is of an earlier release: it does not keep ${dropped.join(", ")}`,
    hint: "kubectl apply -k deploy/crds of this release",
  };
}

function beingDeleted(name: string): Finding {
  return {
    invariant: "definition",
    message: `the definition ${name} is being deleted: no object of it can be created, so nobody gets an address that is new to the cluster`,
    hint: "it cannot be kept any more: remove the finalizers of its objects, then apply deploy/crds again (docs/uninstall.md, A definition that is being deleted)",
  };
}
