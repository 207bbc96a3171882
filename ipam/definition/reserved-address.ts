import { rangeSetsWith } from "./metadata-key.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { redefined } from "./plugin-config.ts";

/**
 * The definition with its reserved address back in the ranges: for a network that no guest has a route by that address
 * on. The same object when it reserves none. See docs/decisions/0043.
 */
export function returnReserved(definition: NetworkDefinition): NetworkDefinition {
  const { metadata, rangeSets } = definition;
  if (metadata === null || metadata.reserved === null) return definition;
  return redefined(definition, {
    rangeSets: rangeSetsWith(rangeSets, metadata.reserved),
    metadata: { ...metadata, reserved: null },
  });
}

/** Computes returnReserved once for each definition. */
export class ReturnedDefinitions {
  readonly #returned = new WeakMap<NetworkDefinition, NetworkDefinition>();

  /** See returnReserved. */
  of(definition: NetworkDefinition): NetworkDefinition {
    const known = this.#returned.get(definition);
    if (known !== undefined) return known;
    const returned = returnReserved(definition);
    this.#returned.set(definition, returned);
    return returned;
  }
}
