import { isObject } from "../../ipam/definition/definition-keys.ts";
import { PAUSED_ANNOTATION } from "../cluster-api.ts";
import { HOST_ANNOTATION, HOST_MARK_ANNOTATION } from "../metal3.ts";
import { conditionsIn, textOf } from "./conditions.ts";
import { type ObjectReference, readReference } from "./machine-data-view.ts";
import { objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** Metadata that templates can name. */
export type NamedView = Readonly<ReturnType<typeof projectNamed>>;

/** Of any version. */
export type Metal3MachineView = Readonly<ReturnType<typeof projectMetal3Machine>>;

export type HostView = Readonly<ReturnType<typeof projectHost>>;

/** Network cards of a host that are read. */
const NICS_MAX = 512;

export function projectNamed(object: unknown, kind: string) {
  return {
    ...readMetadata(object, kind),
    labels: Object.fromEntries(readTexts(object, "labels")),
    annotations: Object.fromEntries(readTexts(object, "annotations")),
  };
}

export function projectMetal3Machine(object: unknown) {
  const named = projectNamed(object, "Metal3Machine");
  const spec = objectAt(object, "spec", "Metal3Machine");
  const status = objectAt(object, "status", "Metal3Machine");
  const annotations = readTexts(object, "annotations");
  return {
    ...named,
    paused: annotations.has(PAUSED_ANNOTATION),
    /** Name of its host; `namespace/name`, as no host is called, of one in another namespace; null: none is chosen. */
    host: hostIn(annotations.get(HOST_ANNOTATION) ?? "", named.namespace),
    /** null: it wants no data of a template. */
    dataTemplate: present(spec.dataTemplate),
    /** Secrets that replace the rendered ones; null: none. */
    metaData: present(spec.metaData),
    networkData: present(spec.networkData),
    /** Of whoever makes it: nothing of it is rendered. */
    userData: present(spec.userData),
    owners: readOwners(object, "Metal3Machine"),
    status: {
      renderedData: present(status.renderedData),
      userData: present(status.userData),
      metaData: present(status.metaData),
      networkData: present(status.networkData),
      /** As written, in the form of its version. */
      conditions: conditionsIn(status.conditions),
    },
  };
}

export function projectHost(object: unknown) {
  const named = projectNamed(object, "BareMetalHost");
  const spec = objectAt(object, "spec", "BareMetalHost");
  const { hardware } = objectAt(object, "status", "BareMetalHost");
  const nics =
    isObject(hardware) && Array.isArray(hardware.nics) ? hardware.nics.slice(0, NICS_MAX).filter(isObject) : null;
  return {
    ...named,
    /** "" when it has none. */
    bootMACAddress: textOf(spec.bootMACAddress),
    /** As inspection found them; null: it is not inspected. */
    nics: nics?.map(({ name, mac }) => ({ name: textOf(name), mac: textOf(mac) })) ?? null,
    metaData: present(spec.metaData),
    networkData: present(spec.networkData),
    /** "": Holdfast has told it nothing. */
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
