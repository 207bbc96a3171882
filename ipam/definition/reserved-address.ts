import { formatAddress, parseAddress } from "../space/address.ts";
import { placeOf } from "../space/range-set.ts";
import { rangeSetsWith, rangeSetsWithout } from "./metadata-key.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { redefined } from "./plugin-config.ts";

/**
 * What new allocations come from while guests have their route to 169.254.169.254 by addresses that earlier releases
 * reserved: those addresses are out of the ranges, and the one that the definition would reserve is back in them unless
 * it is among them. `gateways`: their addresses; null: the one that follows from the definition. See
 * docs/decisions/0043.
 */
export function inForce(
  definition: NetworkDefinition,
  gateways: readonly (string | null)[],
): NetworkDefinition {
  const reserved = definition.metadata?.reserved ?? null;
  const own = reserved === null ? null : formatAddress(reserved.address.address);
  const needsOwn = own !== null && (gateways.includes(null) || gateways.includes(own));
  const base = needsOwn ? definition : returnReserved(definition);
  const others = gateways.flatMap((one) => (one === null || one === own ? [] : parseAddress(one)));
  const [address] = others;
  if (address === undefined) return base;
  const { metadata, rangeSets } = base;
  const subnet = placeOf(rangeSets, address)?.subnet;
  const moved = {
    address: { address, prefixLength: subnet?.cidr.prefixLength ?? 32 },
    automatic: subnet?.automatic.contains(address.value) ?? false,
    named: false,
  };
  return redefined(base, {
    rangeSets: rangeSetsWithout(rangeSets, others),
    metadata: metadata && { ...metadata, reserved: metadata.reserved ?? moved },
  });
}

/** Computes inForce once for each definition, and again when other gateways are needed. */
export class DefinitionsInForce {
  readonly #last = new WeakMap<
    NetworkDefinition,
    { readonly key: string; readonly result: NetworkDefinition }
  >();

  /** See inForce. */
  of(definition: NetworkDefinition, gateways: readonly (string | null)[]): NetworkDefinition {
    if (gateways.length === 0 && (definition.metadata?.reserved ?? null) === null) return definition;
    const key = [...new Set(gateways)].map(String).sort().join();
    const known = this.#last.get(definition);
    if (known?.key === key) return known.result;
    const result = inForce(definition, gateways);
    this.#last.set(definition, { key, result });
    return result;
  }
}

/** The definition with its reserved address back in the ranges. */
function returnReserved(definition: NetworkDefinition): NetworkDefinition {
  const { metadata, rangeSets } = definition;
  if (metadata === null || metadata.reserved === null) return definition;
  return redefined(definition, {
    rangeSets: rangeSetsWith(rangeSets, metadata.reserved),
    metadata: { ...metadata, reserved: null },
  });
}
