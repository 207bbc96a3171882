import { Buffer } from "node:buffer";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import type { OwnerReference } from "../objects.ts";
import { keptAnnotations, type ObjectKind, SERVE_LABEL, TENANT_ID_ANNOTATION } from "./content-annotations.ts";
import { MalformedObjectError, objectAt, readMetadata, readOwners, readTexts, shownName } from "./object-metadata.ts";

export const NAMESPACES_PATH = "/api/v1/namespaces";
export const SECRETS_PATH = "/api/v1/secrets";
export const CONFIG_MAPS_PATH = "/api/v1/configmaps";
export const VMS_PATH = "/apis/kubevirt.io/v1/virtualmachines";
export const VMIS_PATH = "/apis/kubevirt.io/v1/virtualmachineinstances";

/** Its key is its name. */
export type NamespaceView = Readonly<ReturnType<typeof projectNamespace>>;

/** Only its metadata is read. */
export type VmView = Readonly<ReturnType<typeof projectVm>>;

/** A Secret or ConfigMap that may be served. Its key is `Secret/name` or `ConfigMap/name`. */
export type TenantObject = Readonly<ReturnType<typeof projectTenantObject>>;

export function tenantObjectKey(kind: ObjectKind, name: string): string {
  return `${kind}/${name}`;
}

/** Reads a namespace, also if only its metadata was sent. Throws MalformedObjectError. */
export function projectNamespace(object: unknown) {
  const { name, uid, resourceVersion } = objectAt(object, "metadata", "Namespace");
  if (![name, uid, resourceVersion].every((text) => typeof text === "string" && text !== ""))
    throw new MalformedObjectError(`Namespace ${shownName(name)}: metadata is not as it should be`);
  return {
    key: String(name),
    uid: String(uid),
    resourceVersion: String(resourceVersion),
    /** The annotation as it is; null: none. */
    tenantId: readTexts(object, "annotations").get(TENANT_ID_ANNOTATION) ?? null,
  };
}

/** Reads a VirtualMachine, also if only its metadata was sent. Throws MalformedObjectError. */
export function projectVm(object: unknown) {
  const { key, name, uid, resourceVersion } = readMetadata(object, "VirtualMachine");
  const labels = readTexts(object, "labels");
  const annotations = keptAnnotations(readTexts(object, "annotations"));
  return { key, name, uid, resourceVersion, labels, annotations };
}

/** Whether the label permits to serve it to guests. */
export function isServed(object: unknown): boolean {
  return readTexts(object, "labels").get(SERVE_LABEL) === "true";
}

/** Reads a Secret or ConfigMap. Values that are not strings are skipped. Throws MalformedObjectError. */
export function projectTenantObject(object: unknown, kind: ObjectKind) {
  const { name, uid, resourceVersion } = readMetadata(object, kind);
  const encoded = objectAt(object, kind === "Secret" ? "data" : "binaryData", kind);
  const plain = kind === "Secret" ? {} : objectAt(object, "data", kind);
  /** Values as bytes, exactly. */
  const data = new Map<string, Buffer>();
  for (const [key, value] of Object.entries(plain))
    if (typeof value === "string") data.set(key, Buffer.from(value, "utf8"));
  for (const [key, value] of Object.entries(encoded))
    if (typeof value === "string") data.set(key, Buffer.from(value, "base64"));
  return { key: tenantObjectKey(kind, name), uid, resourceVersion, data };
}

/** The VirtualMachine that owns an object; null: none does. */
export function vmOwnerOf(object: unknown, kind: string): OwnerReference | null {
  return readOwners(object, kind).find((owner) => owner.kind === "VirtualMachine") ?? null;
}

/** The objects of a list under a key; anything else is skipped. */
export function objectsIn(object: Readonly<Record<string, unknown>>, key: string) {
  const list = object[key];
  return Array.isArray(list) ? list.filter(isObject) : [];
}

/** A non-empty string, else null. */
export function textIn(object: Readonly<Record<string, unknown>>, key: string): string | null {
  const value = object[key];
  return typeof value === "string" && value !== "" ? value : null;
}
