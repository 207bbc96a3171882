import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { PAUSED_ANNOTATION } from "../cluster-api.ts";
import { INDEXES_OF_ANNOTATION, SHOWN_INDEXES_MAX } from "../metal3.ts";
import type { OwnerReference } from "../objects.ts";
import { type ConditionView, readConditions, textOf } from "./conditions.ts";
import { type ObjectMetadata, objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** A reference to an object; `namespace` is "" where none is given. */
export interface ObjectReference {
  readonly name: string;
  readonly namespace: string;
}

/** What every object of machine data has. */
interface DataObject extends ObjectMetadata {
  readonly generation: number;
  readonly paused: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly conditions: readonly ConditionView[];
}

/** The fields kept of a Metal3DataTemplate. */
export interface DataTemplateView extends DataObject {
  /** As written. */
  readonly spec: JsonObject;
  /**
   * The template whose indexes it goes on with, by the annotation; else its own name. Data objects are named after it.
   */
  readonly series: string;
  /** `status.indexes`. */
  readonly indexes: readonly { readonly name: string; readonly index: number }[];
}

/** The fields kept of a Metal3DataClaim. */
export interface DataClaimView extends DataObject {
  readonly template: ObjectReference;
  readonly owners: readonly OwnerReference[];
  /** Name of the data object; null: there is none. */
  readonly renderedData: string | null;
  /** "": none. */
  readonly errorMessage: string;
}

/** The fields kept of a Metal3Data. */
export interface MachineDataView extends DataObject {
  readonly index: number;
  /** As that of its template when it was created. */
  readonly series: string;
  readonly claim: ObjectReference;
  readonly template: ObjectReference;
  /** Name of the Secret; null: it names none. */
  readonly metaData: string | null;
  readonly networkData: string | null;
  readonly owners: readonly OwnerReference[];
  readonly ready: boolean;
  /** "": none. */
  readonly errorMessage: string;
  /** Of the template that its Secrets were rendered from; "": they were not. */
  readonly templateHash: string;
}

/** One more than we show: so many are not ours. */
const INDEXES_MAX = SHOWN_INDEXES_MAX + 1;

/** Throws MalformedObjectError without metadata. */
export function projectDataTemplate(object: unknown): DataTemplateView {
  const status = objectAt(object, "status", "Metal3DataTemplate");
  const indexes = Array.isArray(status.indexes) ? status.indexes.slice(0, INDEXES_MAX).filter(isObject) : [];
  const common = dataObject(object, "Metal3DataTemplate");
  return {
    ...common,
    spec: objectAt(object, "spec", "Metal3DataTemplate"),
    series: seriesIn(object, common.name),
    indexes: indexes.map(({ name, index }) => ({ name: textOf(name), index: numberOf(index) ?? -1 })),
  };
}

/** Throws MalformedObjectError without metadata. */
export function projectDataClaim(object: unknown): DataClaimView {
  const spec = objectAt(object, "spec", "Metal3DataClaim");
  const status = objectAt(object, "status", "Metal3DataClaim");
  return {
    ...dataObject(object, "Metal3DataClaim"),
    template: readReference(spec.template),
    owners: readOwners(object, "Metal3DataClaim"),
    renderedData: readReference(status.renderedData).name || null,
    errorMessage: textOf(status.errorMessage),
  };
}

/** Throws MalformedObjectError without metadata. */
export function projectMachineData(object: unknown): MachineDataView {
  const spec = objectAt(object, "spec", "Metal3Data");
  const status = objectAt(object, "status", "Metal3Data");
  const template = readReference(spec.template);
  return {
    ...dataObject(object, "Metal3Data"),
    index: numberOf(spec.index) ?? -1,
    series: seriesIn(object, template.name),
    claim: readReference(spec.claim),
    template,
    metaData: readReference(spec.metaData).name || null,
    networkData: readReference(spec.networkData).name || null,
    owners: readOwners(object, "Metal3Data"),
    ready: status.ready === true,
    errorMessage: textOf(status.errorMessage),
    templateHash: textOf(status.templateHash),
  };
}

/** What is missing is "". */
export function readReference(value: unknown): ObjectReference {
  const { name, namespace } = isObject(value) ? value : {};
  return { name: textOf(name), namespace: textOf(namespace) };
}

function dataObject(object: unknown, kind: string): DataObject {
  const { generation } = objectAt(object, "metadata", kind);
  return {
    ...readMetadata(object, kind),
    generation: numberOf(generation) ?? 0,
    paused: readTexts(object, "annotations").has(PAUSED_ANNOTATION),
    labels: Object.fromEntries(readTexts(object, "labels")),
    conditions: readConditions(objectAt(object, "status", kind).conditions),
  };
}

function seriesIn(object: unknown, otherwise: string): string {
  return readTexts(object, "annotations").get(INDEXES_OF_ANNOTATION) ?? otherwise;
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
