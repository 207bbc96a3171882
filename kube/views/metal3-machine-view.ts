import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { PAUSED_ANNOTATION } from "../cluster-api.ts";
import { HOST_ANNOTATION, HOST_MARK_ANNOTATION } from "../metal3.ts";
import type { OwnerReference } from "../objects.ts";
import { conditionsIn, textOf } from "./conditions.ts";
import { type ObjectReference, readReference } from "./machine-data-view.ts";
import { type ObjectMetadata, objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** Metadata that templates can name. */
export interface NamedView extends ObjectMetadata {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The fields kept of a Metal3Machine, in any version. */
export interface Metal3MachineView extends NamedView {
  readonly paused: boolean;
  /** Name of its host; `namespace/name`, as no host is called, of one in another namespace; null: none is chosen. */
  readonly host: string | null;
  /** null: it wants no data of a template. */
  readonly dataTemplate: ObjectReference | null;
  /** Secrets that replace the rendered ones; null: none. */
  readonly metaData: ObjectReference | null;
  readonly networkData: ObjectReference | null;
  /** Of whoever makes it: nothing of it is rendered. */
  readonly userData: ObjectReference | null;
  readonly owners: readonly OwnerReference[];
  readonly status: {
    readonly renderedData: ObjectReference | null;
    readonly userData: ObjectReference | null;
    readonly metaData: ObjectReference | null;
    readonly networkData: ObjectReference | null;
    /** As written, in the form of its version. */
    readonly conditions: readonly JsonObject[];
  };
}

/** The fields kept of a BareMetalHost. */
export interface HostView extends NamedView {
  /** "" when it has none. */
  readonly bootMACAddress: string;
  /** As inspection found them; null: it is not inspected. */
  readonly nics: readonly { readonly name: string; readonly mac: string }[] | null;
  readonly metaData: ObjectReference | null;
  readonly networkData: ObjectReference | null;
  /** "": Holdfast has told it nothing. */
  readonly mark: string;
}

/** Network cards of a host that are read. */
const NICS_MAX = 512;

/** Throws MalformedObjectError without metadata. `kind` is for messages. */
export function projectNamed(object: unknown, kind: string): NamedView {
  return {
    ...readMetadata(object, kind),
    labels: Object.fromEntries(readTexts(object, "labels")),
    annotations: Object.fromEntries(readTexts(object, "annotations")),
  };
}

/** Throws MalformedObjectError without metadata. */
export function projectMetal3Machine(object: unknown): Metal3MachineView {
  const named = projectNamed(object, "Metal3Machine");
  const spec = objectAt(object, "spec", "Metal3Machine");
  const status = objectAt(object, "status", "Metal3Machine");
  const annotations = readTexts(object, "annotations");
  return {
    ...named,
    paused: annotations.has(PAUSED_ANNOTATION),
    host: hostIn(annotations.get(HOST_ANNOTATION) ?? "", named.namespace),
    dataTemplate: present(spec.dataTemplate),
    metaData: present(spec.metaData),
    networkData: present(spec.networkData),
    userData: present(spec.userData),
    owners: readOwners(object, "Metal3Machine"),
    status: {
      renderedData: present(status.renderedData),
      userData: present(status.userData),
      metaData: present(status.metaData),
      networkData: present(status.networkData),
      conditions: conditionsIn(status.conditions),
    },
  };
}

/** Throws MalformedObjectError without metadata. */
export function projectHost(object: unknown): HostView {
  const named = projectNamed(object, "BareMetalHost");
  const spec = objectAt(object, "spec", "BareMetalHost");
  const { hardware } = objectAt(object, "status", "BareMetalHost");
  const nics =
    isObject(hardware) && Array.isArray(hardware.nics) ? hardware.nics.slice(0, NICS_MAX).filter(isObject) : null;
  return {
    ...named,
    bootMACAddress: textOf(spec.bootMACAddress),
    nics: nics?.map(({ name, mac }) => ({ name: textOf(name), mac: textOf(mac) })) ?? null,
    metaData: present(spec.metaData),
    networkData: present(spec.networkData),
    mark: readTexts(object, "annotations").get(HOST_MARK_ANNOTATION) ?? "",
  };
}

function hostIn(annotation: string, namespace: string): string | null {
  const own = `${namespace}/`;
  return (annotation.startsWith(own) ? annotation.slice(own.length) : annotation) || null;
}

function present(value: unknown): ObjectReference | null {
  const reference = readReference(value);
  return reference.name === "" ? null : reference;
}
