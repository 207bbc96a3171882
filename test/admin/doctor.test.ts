import { join } from "node:path";
import { expect, test } from "vitest";
import { definitionFingerprint, SHIPPED_DEFINITIONS } from "../../admin/cluster/doctor/definitions.ts";
import { readManifestDirectory } from "../harness/kube-manifests.ts";

test("the fingerprints by which doctor knows the definitions are those of deploy/crds", () => {
  const definitions = readManifestDirectory(join(import.meta.dirname, "../../deploy/crds"));
  const shipped = definitions.map(({ metadata, spec }) => [metadata.name, definitionFingerprint(spec)]);
  expect(SHIPPED_DEFINITIONS).toEqual(Object.fromEntries(shipped));
});
