import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import type { KubeObject } from "../harness/kube-api.ts";

const MANIFESTS = join(import.meta.dirname, "../../tools/release/manifests.mjs");
const { installed } = (await import(MANIFESTS)) as { installed(components: readonly string[]): KubeObject[] };

/**
 * A command that does what `kubectl apply -k deploy` does with components switched on. kubectl of Debian 12 knows none: it
 * applies a file in `directory` then, as a release has it. A newer one reads them itself.
 */
export function applyWithComponents(directory: string, names: readonly string[]): string {
  const file = join(directory, "with-components.yaml");
  writeFileSync(
    file,
    installed(names)
      .map((object) => stringify(object))
      .join("---\n"),
  );
  return `if kubectl kustomize deploy >/dev/null 2>&1; then kubectl apply -k deploy; else kubectl apply -f ${file}; fi`;
}
