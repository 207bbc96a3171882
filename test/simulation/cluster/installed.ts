import { join } from "node:path";
import type { KubeObject } from "../../../kube/fake/objects.ts";
import { collectionOf, readManifestFolder, readManifests } from "../../harness/kube-manifests.ts";
import type { AdminClient } from "../world.ts";

const CRDS = "test/harness/crds";

/**
 * What is installed in the cluster: the shipped definitions and rights, and definitions of those whom Holdfast works with. Those
 * of Cluster API come with its actors.
 */
export async function install(admin: AdminClient, root: string): Promise<void> {
  for (const object of manifests(root)) await admin.create(collectionOf(object), object);
}

function manifests(root: string): KubeObject[] {
  const file = (path: string) => readManifests(join(root, path));
  const folder = (path: string) => readManifestFolder(join(root, path));
  return [
    ...folder("deploy/crds"),
    ...folder(CRDS),
    ...file(`${CRDS}/udn/keeping.yaml`),
    ...file("deploy/rbac.yaml"),
    ...file("deploy/machines/rbac.yaml"),
  ];
}
