import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { CLUSTER_NAME_LABEL, PAUSED_ANNOTATION } from "../cluster-api.ts";
import { API_VERSION } from "../objects.ts";
import { readConditions, textOf } from "./conditions.ts";
import { objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** The pool that a claim or address of Cluster API names; "" for what is missing. */
export type PoolReference = Readonly<ReturnType<typeof poolReferenceOf>>;

/** Whether it names a pool of ours: by group and kind. */
export function isAddressPool({ apiGroup, kind }: PoolReference): boolean {
  return apiGroup === API_VERSION.split("/")[0] && kind === "AddressPool";
}

/** Of any version. */
export type MachineClaimView = Readonly<ReturnType<typeof projectMachineClaim>>;

export type MachineAddressView = Readonly<ReturnType<typeof projectMachineAddress>>;

export type CapiClusterView = Readonly<ReturnType<typeof projectCapiCluster>>;

/** Metal3's annotation, and ours, which takes precedence. */
const REQUEST_ANNOTATIONS = ["ipam.holdfast.dev/address", "ipAddress"];

export function projectMachineClaim(object: unknown) {
  const metadata = readMetadata(object, "IPAddressClaim");
  const spec = objectAt(object, "spec", "IPAddressClaim");
  const status = objectAt(object, "status", "IPAddressClaim");
  const annotations = readTexts(object, "annotations");
  const named = textOf(spec.clusterName) || readTexts(object, "labels").get(CLUSTER_NAME_LABEL);
  return {
    ...metadata,
    pool: poolReferenceOf(spec.poolRef),
    /** `spec.clusterName`, else the label; null: it belongs to no cluster. */
    cluster: named || null,
    paused: annotations.has(PAUSED_ANNOTATION),
    /** The address that is requested by annotation, as written; null: any. */
    requested: REQUEST_ANNOTATIONS.map((key) => annotations.get(key)).find((text) => text) ?? null,
    /** `status.addressRef.name`; null: not answered. */
    addressRef: textOf(at(status, "addressRef").name) || null,
    /** `status.conditions` as they are in the version that was read. */
    conditions: readConditions(status.conditions),
    /** Of v1beta1: `status.v1beta2.conditions`; of v1beta2: `status.deprecated.v1beta1.conditions`. */
    otherConditions: [
      ...readConditions(at(status, "v1beta2").conditions),
      ...readConditions(at(at(status, "deprecated"), "v1beta1").conditions),
    ],
    owners: readOwners(object, "IPAddressClaim"),
  };
}

export function projectMachineAddress(object: unknown) {
  const metadata = readMetadata(object, "IPAddress");
  const spec = objectAt(object, "spec", "IPAddress");
  return {
    ...metadata,
    claim: textOf(at(spec, "claimRef").name),
    pool: poolReferenceOf(spec.poolRef),
    /** As written; gateway: null where it names none. */
    address: textOf(spec.address),
    prefix: typeof spec.prefix === "number" ? spec.prefix : null,
    gateway: textOf(spec.gateway) || null,
    owners: readOwners(object, "IPAddress"),
    labels: readTexts(object, "labels"),
    annotations: readTexts(object, "annotations"),
  };
}

export function projectCapiCluster(object: unknown) {
  const metadata = readMetadata(object, "Cluster");
  const { paused } = objectAt(object, "spec", "Cluster");
  return { ...metadata, paused: paused === true || readTexts(object, "annotations").has(PAUSED_ANNOTATION) };
}

function poolReferenceOf(value: unknown) {
  const { apiGroup, kind, name } = isObject(value) ? value : {};
  return { apiGroup: textOf(apiGroup), kind: textOf(kind), name: textOf(name) };
}

function at(value: JsonObject, key: string): JsonObject {
  const found = value[key];
  return isObject(found) ? found : {};
}
