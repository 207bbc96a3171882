import { rangeSetsWith } from "./metadata-key.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { redefined } from "./plugin-config.ts";

const RETURNED = new WeakMap<NetworkDefinition, NetworkDefinition>();

/**
 * The definition with its reserved address back in the ranges: for a network that no guest has a route by that address
 * on. Computed once for each definition; the same object when it reserves none. See docs/decisions/0043.
 */
export function returnReserved(definition: NetworkDefinition): NetworkDefinition {
  const { metadata, rangeSets } = definition;
  if (metadata === null || metadata.reserved === null) return definition;
  const known = RETURNED.get(definition);
  if (known !== undefined) return known;
  const returned = redefined(definition, {
    rangeSets: rangeSetsWith(rangeSets, metadata.reserved),
    metadata: { ...metadata, reserved: null },
  });
  RETURNED.set(definition, returned);
  return returned;
}
