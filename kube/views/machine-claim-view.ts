import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { CLUSTER_NAME_LABEL, PAUSED_ANNOTATION } from "../cluster-api.ts";
import { API_VERSION, type OwnerReference } from "../objects.ts";
import { type ConditionView, readConditions, textOf } from "./conditions.ts";
import { type ObjectMetadata, objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** The pool that a claim or address of Cluster API names; "" for what is missing. */
export interface PoolReference {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}

/** Whether it names a pool of ours: by group and kind. */
export function isAddressPool({ apiGroup, kind }: PoolReference): boolean {
  return apiGroup === API_VERSION.split("/")[0] && kind === "AddressPool";
}

/** The fields kept of an IPAddressClaim of Cluster API, in any version. */
export interface MachineClaimView extends ObjectMetadata {
  readonly pool: PoolReference;
  /** `spec.clusterName`, else the label; null: it belongs to no cluster. */
  readonly cluster: string | null;
  readonly paused: boolean;
  /** The address that is requested by annotation, as written; null: any. */
  readonly requested: string | null;
  /** `status.addressRef.name`; null: not answered. */
  readonly addressRef: string | null;
  /** `status.conditions` as they are in the version that was read. */
  readonly conditions: readonly ConditionView[];
  /** Of v1beta1: `status.v1beta2.conditions`; of v1beta2: `status.deprecated.v1beta1.conditions`. */
  readonly otherConditions: readonly ConditionView[];
  readonly owners: readonly OwnerReference[];
}

/** The fields kept of an IPAddress of Cluster API. */
export interface MachineAddressView extends ObjectMetadata {
  readonly claim: string;
  readonly pool: PoolReference;
  /** As written. */
  readonly address: string;
  readonly prefix: number | null;
  /** As written; null: it names none. */
  readonly gateway: string | null;
  readonly owners: readonly OwnerReference[];
  readonly labels: ReadonlyMap<string, string>;
  readonly annotations: ReadonlyMap<string, string>;
}

/** The fields kept of a Cluster. */
export interface CapiClusterView extends ObjectMetadata {
  readonly paused: boolean;
}

/** Metal3's annotation, and ours, which takes precedence. */
const REQUEST_ANNOTATIONS = ["ipam.holdfast.dev/address", "ipAddress"];

/** Throws MalformedObjectError without metadata. */
export function projectMachineClaim(object: unknown): MachineClaimView {
  const metadata = readMetadata(object, "IPAddressClaim");
  const spec = objectAt(object, "spec", "IPAddressClaim");
  const status = objectAt(object, "status", "IPAddressClaim");
  const annotations = readTexts(object, "annotations");
  const named = textOf(spec.clusterName) || readTexts(object, "labels").get(CLUSTER_NAME_LABEL);
  return {
    ...metadata,
    pool: poolReferenceOf(spec.poolRef),
    cluster: named || null,
    paused: annotations.has(PAUSED_ANNOTATION),
    requested: REQUEST_ANNOTATIONS.map((key) => annotations.get(key)).find((text) => text) ?? null,
    addressRef: textOf(at(status, "addressRef").name) || null,
    conditions: readConditions(status.conditions),
    otherConditions: [
      ...readConditions(at(status, "v1beta2").conditions),
      ...readConditions(at(at(status, "deprecated"), "v1beta1").conditions),
    ],
    owners: readOwners(object, "IPAddressClaim"),
  };
}

/** Throws MalformedObjectError without metadata. */
export function projectMachineAddress(object: unknown): MachineAddressView {
  const metadata = readMetadata(object, "IPAddress");
  const spec = objectAt(object, "spec", "IPAddress");
  return {
    ...metadata,
    claim: textOf(at(spec, "claimRef").name),
    pool: poolReferenceOf(spec.poolRef),
    address: textOf(spec.address),
    prefix: typeof spec.prefix === "number" ? spec.prefix : null,
    gateway: textOf(spec.gateway) || null,
    owners: readOwners(object, "IPAddress"),
    labels: readTexts(object, "labels"),
    annotations: readTexts(object, "annotations"),
  };
}

/** Throws MalformedObjectError without metadata. */
export function projectCapiCluster(object: unknown): CapiClusterView {
  const metadata = readMetadata(object, "Cluster");
  const { paused } = objectAt(object, "spec", "Cluster");
  return { ...metadata, paused: paused === true || readTexts(object, "annotations").has(PAUSED_ANNOTATION) };
}

function poolReferenceOf(value: unknown): PoolReference {
  const { apiGroup, kind, name } = isObject(value) ? value : {};
  return { apiGroup: textOf(apiGroup), kind: textOf(kind), name: textOf(name) };
}

function at(value: JsonObject, key: string): JsonObject {
  const found = value[key];
  return isObject(found) ? found : {};
}
