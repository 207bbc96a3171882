import { type NetworkDefinition, networkNameIn, parseNadConfigIfOurs } from "../ipam/network-definition.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";

/** What the configuration of a NAD says. */
export type NadReading =
  | { readonly kind: "ours"; readonly definition: NetworkDefinition }
  | { readonly kind: "not-ours" }
  | ({ readonly kind: "broken" } & BrokenNad);

/** Why a NAD defines nothing, and the network that it names all the same; null: it cannot be told. */
export interface BrokenNad {
  readonly network: string | null;
  readonly refusal: Refusal;
}

/** A network without ranges is wrong: in Kubernetes nothing else could give them. */
export function readNadConfig(config: string): NadReading {
  try {
    const nad = parseNadConfigIfOurs(config);
    if (nad === null) return { kind: "not-ours" };
    const { network, definition } = nad;
    if (definition.rangeSets.length > 0) return { kind: "ours", definition };
    return { kind: "broken", network, refusal: refuse("NETWORK_UNDEFINED", { network }) };
  } catch (error) {
    if (error instanceof RefusalError)
      return { kind: "broken", network: networkNameIn(config), refusal: error.refusal };
    throw error;
  }
}
