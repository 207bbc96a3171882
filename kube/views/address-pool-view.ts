import { isObject } from "../../ipam/definition/definition-keys.ts";
import type { Family } from "../../ipam/space/address.ts";
import { CLUSTER_NAME_LABEL, PAUSED_ANNOTATION } from "../cluster-api.ts";
import { readConditions, textOf } from "./conditions.ts";
import { objectAt, readMetadata, readTexts } from "./object-metadata.ts";

/** Values are as written: the definition of the kind checks their types only. */
export type AddressPoolView = Readonly<ReturnType<typeof projectAddressPool>>;

const COUNTS = ["size", "allocated", "cooling", "free", "outOfRange"];

/** Throws MalformedObjectError also without a network. */
export function projectAddressPool(object: unknown) {
  const metadata = readMetadata(object, "AddressPool");
  const spec = objectAt(object, "spec", "AddressPool");
  const status = objectAt(object, "status", "AddressPool");
  const { generation } = objectAt(object, "metadata", "AddressPool");
  const family: Family | null = spec.family === 4 || spec.family === 6 ? spec.family : null;
  return {
    ...metadata,
    generation: typeof generation === "number" ? generation : 0,
    network: textOf(spec.network),
    family,
    /** null: everything that pods get. */
    ranges: Array.isArray(spec.ranges) ? spec.ranges.map(textOf) : null,
    gateway: textOf(spec.gateway) || null,
    /** Addresses by the name of the claim. */
    preallocations: textsOf(spec.preallocations),
    /** The keys of a CNI `ipam` block; null: the pool defines nothing. */
    definition: isObject(spec.definition) ? spec.definition : null,
    paused: readTexts(object, "annotations").has(PAUSED_ANNOTATION),
    /** The label; null: it belongs to no cluster. */
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
