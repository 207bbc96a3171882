import type { ClaimCondition } from "../../ipam/claim-conditions.ts";
import type { JsonObject } from "../../ipam/definition/definition-keys.ts";
import { conditionsIn } from "../../kube/views/conditions.ts";
import { MalformedObjectError, objectAt, readTexts, shownName } from "../../kube/views/object-metadata.ts";

const GROUP = "k8s.ovn.org/v1";
export const UDNS_PATH = `/apis/${GROUP}/userdefinednetworks`;
export const CUDNS_PATH = `/apis/${GROUP}/clusteruserdefinednetworks`;
export const UDN_API_VERSION = GROUP;

/**
 * Names the Service that answers the metadata requests of a network, `[namespace/]name`. It replaces
 * `metadataServiceRef`, which OVN-Kubernetes' own definitions drop and a NetworkAttachmentDefinition does not have.
 */
export const SERVICE_ANNOTATION = "metadata.holdfast.dev/service";

/** `"true"`: the guests of the network are served by the listeners of their nodes. */
const SERVE_ANNOTATION = "metadata.holdfast.dev/serve";

export type UdnKind = "UserDefinedNetwork" | "ClusterUserDefinedNetwork";

export type UdnView = Readonly<ReturnType<typeof projectUdn>>;

/** Throws MalformedObjectError. */
export function projectUdn(object: unknown, kind: UdnKind) {
  const { namespace, name, uid, resourceVersion, creationTimestamp, generation } = objectAt(object, "metadata", kind);
  const cluster = kind === "ClusterUserDefinedNetwork";
  const texts = [name, uid, resourceVersion, creationTimestamp, ...(cluster ? [] : [namespace])];
  if (!texts.every((text) => typeof text === "string" && text !== ""))
    throw new MalformedObjectError(`${kind} ${shownName(name)}: its metadata is not complete`);
  const spec = objectAt(object, "spec", kind);
  return {
    /** Of a ClusterUserDefinedNetwork its name; its namespace is "". */
    key: cluster ? `${name}` : `${namespace}/${name}`,
    kind,
    namespace: cluster ? "" : `${namespace}`,
    name: `${name}`,
    uid: `${uid}`,
    resourceVersion: `${resourceVersion}`,
    /** RFC 3339 */
    creationTimestamp: `${creationTimestamp}`,
    generation: typeof generation === "number" ? generation : 0,
    /** `name` in the configurations that OVN-Kubernetes renders, and `spec.network` of its claims. */
    network: cluster ? `cluster_udn_${name}` : `${namespace}_${name}`,
    spec,
    networkSpec: cluster ? objectAt(spec, "network", kind) : spec,
    serviceAnnotation: readTexts(object, "annotations").get(SERVICE_ANNOTATION) ?? null,
    serves: readTexts(object, "annotations").get(SERVE_ANNOTATION) === "true",
    conditions: conditionsOf(objectAt(object, "status", kind).conditions),
  };
}

/** For messages: `ClusterUserDefinedNetwork blue`, `UserDefinedNetwork shop/blue`. */
export function describeUdn({ kind, key }: Pick<UdnView, "kind" | "key">): string {
  return `${kind} ${key}`;
}

/** Conditions of other writers are kept as they are. */
function conditionsOf(value: unknown): ClaimCondition[] {
  return conditionsIn(value).filter((one): one is ClaimCondition & JsonObject => typeof one.type === "string");
}
