/** The resources of Metal3 that machine data is about, as on the wire. */

export const INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io";
/** The only version in which the data kinds are read and written. */
export const DATA_API_VERSION = `${INFRASTRUCTURE_GROUP}/v1beta2`;
export const DATA_TEMPLATES_PATH = `/apis/${DATA_API_VERSION}/metal3datatemplates`;
export const DATA_CLAIMS_PATH = `/apis/${DATA_API_VERSION}/metal3dataclaims`;
export const MACHINE_DATAS_PATH = `/apis/${DATA_API_VERSION}/metal3datas`;
export const HOSTS_PATH = "/apis/metal3.io/v1alpha1/baremetalhosts";
export const SECRETS_PATH = "/api/v1/secrets";

/** On a Metal3Machine: `namespace/name` of its host, once one is chosen. */
export const HOST_ANNOTATION = "metal3.io/BareMetalHost";
/** On a host: whose Secrets it was told of, and which they are (controller/machine-data/host-references.ts). */
export const HOST_MARK_ANNOTATION = "metadata.holdfast.dev/machine-data";
/** On a template: whose indexes and names of data it goes on with; on data: whose they are (docs/decisions/0065). */
export const INDEXES_OF_ANNOTATION = "metadata.holdfast.dev/indexes-of";
export const SECRET_TYPE = "infrastructure.cluster.x-k8s.io/secret";

/** Longest `status.errorMessage`, characters. */
export const ERROR_CHARS_MAX = 512;
/** Entries of a template's `status.indexes`. */
export const SHOWN_INDEXES_MAX = 512;
/** The largest index that the definitions accept. */
export const INDEX_MAX = 2 ** 31 - 1;
