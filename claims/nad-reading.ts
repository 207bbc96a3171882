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

/**
 * Whether an edit leaves a NAD ours, on its network and with the same addresses: one that could not be given before, such as
 * a gateway or one outside of the subnets, was not imported either.
 */
export function givesSameAddresses(before: NadReading, after: NadReading): boolean {
  if (before.kind !== "ours" || after.kind !== "ours") return false;
  const addressesOf = ({ rangeSets }: NetworkDefinition) => rangeSets.map((set) => set.fingerprint).join();
  return (
    before.definition.name === after.definition.name &&
    addressesOf(before.definition) === addressesOf(after.definition)
  );
}

interface Edition {
  readonly uid: string;
  readonly generation: number;
  readonly config: string;
}

/**
 * Whether no edition of a NAD was missed between these two: generations count by one, and start anew with the UID. `unbroken`:
 * nothing has interrupted the watch between them.
 */
export function follows(known: Edition, next: Edition, unbroken: boolean): boolean {
  if (next.uid !== known.uid) return false;
  if (next.generation === known.generation) return next.config === known.config;
  return unbroken && next.generation === known.generation + 1;
}
