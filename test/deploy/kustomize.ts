import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";
import { run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";

/** What `kubectl kustomize` makes of deploy/, and how kubectl reads a file that something else has written. */

const DEPLOY = join(import.meta.dirname, "../../deploy");
const YAML = { version: "1.1" } as const;
/** kubectl before 1.21. */
const KNOWS_NO_COMPONENTS = 'unknown field "components"';

/** The objects of a directory of deploy/, with components; `image`: in place of that of deploy/. */
export async function kustomized(
  directory: string,
  components: readonly string[] = [],
  image?: string,
): Promise<KubeObject[]> {
  return withDirectory(async (root) => {
    const tree = join(root, "deploy");
    cpSync(DEPLOY, tree, { recursive: true });
    const file = join(tree, directory, "kustomization.yaml");
    const own = parse(readFileSync(file, "utf8"), YAML) as KubeObject;
    const [, newName, newTag] = /^(.+):([^:/]+)$/.exec(image ?? "") ?? [];
    if (newName !== undefined) own.images = [{ name: "holdfast", newName, newTag }];
    if (components.length === 0) return built(file, own);
    return built(file, { ...own, components }).catch((error: Error) => {
      if (!error.message.includes(KNOWS_NO_COMPONENTS)) throw error;
      return built(file, withoutComponents(tree, own, components));
    });
  });
}

/** The objects of a text, as kubectl reads them. */
export function readByKubectl(text: string): Promise<KubeObject[]> {
  return withDirectory((directory) => {
    writeFileSync(join(directory, "all.yaml"), text);
    return built(join(directory, "kustomization.yaml"), { resources: ["all.yaml"] });
  });
}

async function built(file: string, kustomization: object): Promise<KubeObject[]> {
  writeFileSync(file, stringify(kustomization, YAML));
  const { code, stdout, stderr } = await run("kubectl", ["kustomize", join(file, "..")]);
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout, YAML)
    .map((one) => one.toJS())
    .filter((one) => one !== null);
}

/** The same in the words of an older kustomize. */
function withoutComponents(tree: string, own: KubeObject, components: readonly string[]): object {
  const resources: string[] = [...own.resources];
  const patchesJson6902: object[] = [];
  mkdirSync(join(tree, "patches"));
  for (const name of components) {
    const component = parse(readFileSync(join(tree, name, "kustomization.yaml"), "utf8"), YAML) as KubeObject;
    resources.push(...component.resources.map((one: string) => `${name}/${one}`));
    for (const { target, patch } of component.patches ?? []) {
      const path = `patches/${patchesJson6902.length}.yaml`;
      writeFileSync(join(tree, path), patch);
      const { kind, name: object } = target;
      const of = { group: "apps", version: "v1", kind, name: object, namespace: "holdfast-system" };
      patchesJson6902.push({ target: of, path });
    }
  }
  return { ...own, resources, patchesJson6902 };
}

async function withDirectory<T>(act: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-kustomize-"));
  try {
    return await act(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** In an order that does not depend on who wrote them: kind, namespace and name. */
export function byName(objects: readonly KubeObject[]): Record<string, KubeObject> {
  const named = objects.map((one): [string, KubeObject] => [
    `${one.kind} ${one.metadata.namespace ?? ""}/${one.metadata.name}`,
    one,
  ]);
  if (new Set(named.map(([name]) => name)).size !== named.length)
    throw new Error(`an object occurs more than once among ${named.map(([name]) => name).join(", ")}`);
  return Object.fromEntries(named);
}
