/*
 * kube/views/: the few fields that are kept of each kind, validated: MalformedObjectError without sound metadata
 *
 *   object-metadata                       fields of every object
 *   pod-view, held-addresses              a pod, and the addresses that its annotations report
 *   network-selection, selection-element, claim-reference   what a pod requests
 *   claim-view, claim-status-patch        an IPAMClaim
 *   vmi-view, content-annotations, tenant-objects   a VM and its owner's content
 *   address-pool-view, machine-claim-view, conditions   pools, and what machines of Cluster API ask of them
 *   machine-data-view, metal3-machine-view, templated-vm-view   machine data, and whom it is for
 *   service-view, whereabouts
 */

import { excerpt } from "../../ipam/copied-text.ts";
import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { NAME_CHARS_MAX } from "../object-names.ts";
import type { OwnerReference } from "../objects.ts";

export type ObjectMetadata = Readonly<ReturnType<typeof readMetadata>>;

/** An object from the API server that is malformed: a fault of the server or of a proxy in between. */
export class MalformedObjectError extends Error {
  override readonly name = "MalformedObjectError";
}

/** Reads the metadata of a namespaced object; `kind` is for messages. Throws MalformedObjectError. */
export function readMetadata(object: unknown, kind: string) {
  const metadata = objectAt(object, "metadata", kind);
  const { namespace, name, uid, resourceVersion, creationTimestamp, deletionTimestamp } = metadata;
  const at = { kind, name };
  return {
    key: `${readText(namespace, "metadata.namespace", at)}/${readText(name, "metadata.name", at)}`,
    namespace: readText(namespace, "metadata.namespace", at),
    name: readText(name, "metadata.name", at),
    uid: readText(uid, "metadata.uid", at),
    resourceVersion: readText(resourceVersion, "metadata.resourceVersion", at),
    /** RFC 3339 in UTC, whole seconds, as the API server writes it. */
    creationTimestamp: readText(creationTimestamp, "metadata.creationTimestamp", at),
    deletionTimestamp:
      deletionTimestamp === undefined || deletionTimestamp === null
        ? null
        : readText(deletionTimestamp, "metadata.deletionTimestamp", at),
  };
}

/** Owner references with kind, name and UID; others are ignored. Throws MalformedObjectError. */
export function readOwners(object: unknown, kind: string): OwnerReference[] {
  const { ownerReferences = [], name } = objectAt(object, "metadata", kind);
  if (!Array.isArray(ownerReferences)) malformed("metadata.ownerReferences", { kind, name });
  return ownerReferences.filter(
    (owner): owner is OwnerReference & JsonObject =>
      isObject(owner) && [owner.kind, owner.name, owner.uid].every((text) => typeof text === "string" && text !== ""),
  );
}

/** Labels or annotations that are texts. */
export function readTexts(object: unknown, field: "labels" | "annotations"): Map<string, string> {
  const metadata = isObject(object) && isObject(object.metadata) ? object.metadata : {};
  const found = metadata[field];
  return new Map(
    Object.entries(isObject(found) ? found : {}).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string",
    ),
  );
}

/** The object under a key, `{}` if there is none. Throws MalformedObjectError. */
export function objectAt(object: unknown, key: string, kind: string): JsonObject {
  if (!isObject(object)) throw new MalformedObjectError(`${kind}: no object`);
  const value = object[key];
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw new MalformedObjectError(`${kind}: ${key} is no object`);
  return value;
}

interface Place {
  readonly kind: string;
  readonly name: unknown;
}

function readText(value: unknown, path: string, at: Place): string {
  if (typeof value !== "string" || value === "") malformed(path, at);
  return value;
}

function malformed(path: string, { kind, name }: Place): never {
  throw new MalformedObjectError(`${kind} ${shownName(name)}: ${path} is missing or not as it should be`);
}

/** The name of an object whose metadata may be anything. */
export function shownName(name: unknown): string {
  return typeof name === "string" ? excerpt(name, NAME_CHARS_MAX) : "without a name";
}
