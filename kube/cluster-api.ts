/** The resources of Cluster API that machines' addresses are about, as on the wire. */

import { namespacedPath } from "./objects.ts";

export const CAPI_IPAM_GROUP = "ipam.cluster.x-k8s.io";
export const CAPI_GROUP = "cluster.x-k8s.io";
/** The versions that are read and written, the preferred one first. */
const CAPI_VERSIONS = ["v1beta2", "v1beta1", "v1alpha1"] as const;

/** On any object: controllers leave it alone. On a Cluster: with everything in it. */
export const PAUSED_ANNOTATION = `${CAPI_GROUP}/paused`;
export const CLUSTER_NAME_LABEL = `${CAPI_GROUP}/cluster-name`;

/** The paths of a collection in every version, the preferred one first. */
export function capiPaths(group: string, plural: string): readonly [string, ...string[]] {
  const [first, ...others] = CAPI_VERSIONS.map((version) => `/apis/${group}/${version}/${plural}`);
  return [first as string, ...others];
}

export type MachineResource = "ipaddressclaims" | "ipaddresses" | "clusters";

/** In every version, first that of `served`: the collection's path that is known to be served; null: none is known. */
export function machinePaths(
  resource: MachineResource,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  served: string | null = null,
): readonly [string, ...string[]] {
  const all = capiPaths(resource === "clusters" ? CAPI_GROUP : CAPI_IPAM_GROUP, resource);
  const first = served ?? all[0];
  const path = (collection: string) => namespacedPath(collection, namespace, name);
  return [path(first), ...all.filter((one) => one !== first).map(path)];
}

/** Metal3Data: of a machine whose addresses may need no claim. */
export const METAL3_DATA_PATHS = capiPaths("infrastructure.cluster.x-k8s.io", "metal3datas").slice(0, 2);
