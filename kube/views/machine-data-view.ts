import { isObject } from "../../ipam/definition/definition-keys.ts";
import { PAUSED_ANNOTATION } from "../cluster-api.ts";
import { INDEXES_OF_ANNOTATION, SHOWN_INDEXES_MAX } from "../metal3.ts";
import { readConditions, textOf } from "./conditions.ts";
import { objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** A reference to an object; `namespace` is "" where none is given. */
export type ObjectReference = Readonly<ReturnType<typeof readReference>>;

export type DataTemplateView = Readonly<ReturnType<typeof projectDataTemplate>>;

export type DataClaimView = Readonly<ReturnType<typeof projectDataClaim>>;

export type MachineDataView = Readonly<ReturnType<typeof projectMachineData>>;

/** One more than we show: so many are not ours. */
const INDEXES_MAX = SHOWN_INDEXES_MAX + 1;

export function projectDataTemplate(object: unknown) {
  const status = objectAt(object, "status", "Metal3DataTemplate");
  const indexes = Array.isArray(status.indexes) ? status.indexes.slice(0, INDEXES_MAX).filter(isObject) : [];
  const common = dataObject(object, "Metal3DataTemplate");
  return {
    ...common,
    spec: objectAt(object, "spec", "Metal3DataTemplate"),
    /** The template whose indexes it goes on with, by the annotation; else its own name. Data is named after it. */
    series: seriesIn(object, common.name),
    indexes: indexes.map(({ name, index }) => ({ name: textOf(name), index: numberOf(index) ?? -1 })),
  };
}

export function projectDataClaim(object: unknown) {
  const spec = objectAt(object, "spec", "Metal3DataClaim");
  const status = objectAt(object, "status", "Metal3DataClaim");
  return {
    ...dataObject(object, "Metal3DataClaim"),
    template: readReference(spec.template),
    owners: readOwners(object, "Metal3DataClaim"),
    /** Name of the data object; null: none. */
    renderedData: readReference(status.renderedData).name || null,
    errorMessage: textOf(status.errorMessage),
  };
}

export function projectMachineData(object: unknown) {
  const spec = objectAt(object, "spec", "Metal3Data");
  const status = objectAt(object, "status", "Metal3Data");
  const template = readReference(spec.template);
  return {
    ...dataObject(object, "Metal3Data"),
    index: numberOf(spec.index) ?? -1,
    /** As that of its template when it was created. */
    series: seriesIn(object, template.name),
    claim: readReference(spec.claim),
    template,
    /** Name of the Secret; null: it names none. */
    metaData: readReference(spec.metaData).name || null,
    networkData: readReference(spec.networkData).name || null,
    owners: readOwners(object, "Metal3Data"),
    ready: status.ready === true,
    errorMessage: textOf(status.errorMessage),
    /** Of the template that its Secrets were rendered from; "": they were not. */
    templateHash: textOf(status.templateHash),
  };
}

/** What is missing is "". */
export function readReference(value: unknown) {
  const { name, namespace } = isObject(value) ? value : {};
  return { name: textOf(name), namespace: textOf(namespace) };
}

function dataObject(object: unknown, kind: string) {
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
