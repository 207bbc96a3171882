import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const manifests = (path: string): KubeObject[] => readManifests(join(DEPLOY, path));

/**
 * A command that does what `kubectl apply -k deploy` does with components switched on. kubectl of Debian 12 knows none: it
 * applies a file in `folder` then, in which they are added here. A newer one reads them itself.
 */
export function applyWithComponents(folder: string, names: readonly string[]): string {
  const [all] = manifests("kustomization.yaml");
  const objects: KubeObject[] = all.resources.flatMap(manifests);
  for (const name of names) {
    const [component] = manifests(`${name}/kustomization.yaml`);
    objects.push(...component.resources.flatMap((path: string) => manifests(`${name}/${path}`)));
    for (const { target, patch } of component.patches) {
      const [object] = objects.filter(
        ({ kind, metadata }) => kind === target.kind && metadata.name === target.name,
      );
      for (const operation of parse(patch)) add(object as KubeObject, operation);
    }
  }
  const file = join(folder, "with-components.yaml");
  writeFileSync(file, objects.map((object) => stringify(object)).join("---\n"));
  return `if kubectl kustomize deploy >/dev/null 2>&1; then kubectl apply -k deploy; else kubectl apply -f ${file}; fi`;
}

/** One operation of a JSON patch; only "add" is known. */
function add(object: KubeObject, { op, path, value }: KubeObject): void {
  const keys: string[] = path.split("/").slice(1);
  const last = keys.pop() as string;
  const parent = keys.reduce((at, key) => at[key], object);
  if (op !== "add") throw new Error(`${op} ${path}: expected "add"`);
  if (last === "-") parent.push(value);
  else parent[last] = value;
}
