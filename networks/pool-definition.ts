import { PERSISTENCE_KEY, PLUGIN_TYPE } from "../ipam/definition/definition-keys.ts";
import { parseNadConfig } from "../ipam/definition/nad-config.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import type { AddressPoolView } from "../kube/views/address-pool-view.ts";
import type { NadReading } from "./nad-reading.ts";
import type { NadView } from "./nad-view.ts";

const KIND = "AddressPool ";

/** The definition of a network by a pool, with its pool's name as key: `AddressPool namespace/name`. */
export function poolDefinitionKey(poolKey: string): string {
  return `${KIND}${poolKey}`;
}

/** For messages: the kind and name of what defines a network. */
export function describeDefinition(key: string): string {
  return key.startsWith(KIND) ? key : `NetworkAttachmentDefinition ${key}`;
}

/** The namespace of a definition: of a NAD, `namespace/name`, or of a pool. */
export function namespaceOfDefinition(key: string): string {
  const name = key.startsWith(KIND) ? key.slice(KIND.length) : key;
  return name.split("/")[0] ?? "";
}

/** A pool's `spec.definition` in the form of a NAD; null: it defines nothing. */
export function definitionView(pool: AddressPoolView): NadView | null {
  if (pool.definition === null) return null;
  const { [PERSISTENCE_KEY]: persistence, ...ipam } = pool.definition;
  const config = { name: pool.network, [PERSISTENCE_KEY]: persistence, ipam: { type: PLUGIN_TYPE, ...ipam } };
  const { key, namespace, name, uid, resourceVersion, creationTimestamp, deletionTimestamp } = pool;
  return {
    ...{ namespace, name, uid, resourceVersion, creationTimestamp, deletionTimestamp },
    key: poolDefinitionKey(key),
    config: JSON.stringify(config),
    generation: pool.generation,
    sharedWith: [],
  };
}

/** What a definition of a pool means. Its refusals name the keys of the pool. */
export function readPoolDefinition(network: string, config: string): Exclude<NadReading, { kind: "not-ours" }> {
  try {
    const { definition } = parseNadConfig(config, network);
    if (definition.rangeSets.length > 0) return { kind: "ours", definition };
    const remedy = 'list the subnets of the network, such as ["192.0.2.0/24"]';
    const refusal = refuse("CONFIG_INVALID", { key: "spec.definition.subnets", value: "missing", remedy });
    return { kind: "broken", network, refusal };
  } catch (error) {
    if (error instanceof RefusalError) return { kind: "broken", network, refusal: aboutPool(error.refusal) };
    throw error;
  }
}

function aboutPool(refusal: Refusal): Refusal {
  if (refusal.code !== "CONFIG_INVALID") return refusal;
  const { key } = refusal.about;
  const ofPool = key === "name" ? "spec.network" : `spec.definition.${key.replace(/^ipam\.?/, "")}`.replace(/\.$/, "");
  return refuse("CONFIG_INVALID", { ...refusal.about, key: ofPool });
}
