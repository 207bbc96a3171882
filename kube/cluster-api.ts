/** The resources of Cluster API that machines' addresses are about, as on the wire. */

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

/** Metal3Data: of a machine whose addresses may need no claim. */
export const METAL3_DATA_PATHS = capiPaths("infrastructure.cluster.x-k8s.io", "metal3datas").slice(0, 2);
