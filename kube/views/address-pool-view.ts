import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { CLUSTER_NAME_LABEL, PAUSED_ANNOTATION } from "../cluster-api.ts";
import { type ConditionView, readConditions, textOf } from "./conditions.ts";
import { type ObjectMetadata, objectAt, readMetadata, readTexts } from "./object-metadata.ts";

/** The fields kept of an AddressPool. Values are as written: the definition of the kind checks their types only. */
export interface AddressPoolView extends ObjectMetadata {
  readonly generation: number;
  readonly network: string;
  readonly family: 4 | 6 | null;
  /** null: everything that pods get. */
  readonly ranges: readonly string[] | null;
  readonly gateway: string | null;
  /** Addresses by the name of the claim. */
  readonly preallocations: ReadonlyMap<string, string>;
  /** The keys of a CNI `ipam` block; null: the pool defines nothing. */
  readonly definition: JsonObject | null;
  readonly paused: boolean;
  /** The label; null: it belongs to no cluster. */
  readonly cluster: string | null;
  readonly status: {
    readonly counts: Readonly<Record<string, string>>;
    readonly observedGeneration: number;
    readonly conditions: readonly ConditionView[];
  };
}

const COUNTS = ["size", "allocated", "cooling", "free", "outOfRange"];

/** Throws MalformedObjectError without metadata or network. */
export function projectAddressPool(object: unknown): AddressPoolView {
  const metadata = readMetadata(object, "AddressPool");
  const spec = objectAt(object, "spec", "AddressPool");
  const status = objectAt(object, "status", "AddressPool");
  const { generation } = objectAt(object, "metadata", "AddressPool");
  return {
    ...metadata,
    generation: typeof generation === "number" ? generation : 0,
    network: textOf(spec.network),
    family: spec.family === 4 || spec.family === 6 ? spec.family : null,
    ranges: Array.isArray(spec.ranges) ? spec.ranges.map(textOf) : null,
    gateway: textOf(spec.gateway) || null,
    preallocations: textsOf(spec.preallocations),
    definition: isObject(spec.definition) ? spec.definition : null,
    paused: readTexts(object, "annotations").has(PAUSED_ANNOTATION),
    cluster: readTexts(object, "labels").get(CLUSTER_NAME_LABEL) || null,
    status: {
      counts: Object.fromEntries(COUNTS.map((key) => [key, textOf(status[key])])),
      observedGeneration: typeof status.observedGeneration === "number" ? status.observedGeneration : 0,
      conditions: readConditions(status.conditions),
    },
  };
}

function textsOf(value: unknown): Map<string, string> {
  return new Map(Object.entries(isObject(value) ? value : {}).map(([key, text]) => [key, textOf(text)]));
}
