import { join } from "node:path";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import { collectionOf, readManifestDirectory, readManifests } from "../../harness/kube-manifests.ts";
import type { AdminClient } from "../world.ts";

const ROOT = join(import.meta.dirname, "../../..");
const CRDS = "test/harness/crds";

/**
 * What is installed in the cluster: the shipped definitions and rights, and definitions of those whom Holdfast works
 * with. Those of Cluster API come with its actors.
 */
export async function install(admin: AdminClient): Promise<void> {
  for (const object of manifests()) await admin.create(collectionOf(object), object);
}

function manifests(): KubeObject[] {
  const file = (path: string) => readManifests(join(ROOT, path));
  const directory = (path: string) => readManifestDirectory(join(ROOT, path));
  return [
    ...directory("deploy/crds"),
    ...directory(CRDS),
    ...file(`${CRDS}/udn/keeping.yaml`),
    ...file("deploy/rbac.yaml"),
    ...file("deploy/machines/rbac.yaml"),
  ];
}
