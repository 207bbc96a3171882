import { networkNameIn, parseNadConfigIfOurs } from "../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import type { ObjectMetadata } from "../kube/views/object-metadata.ts";

export type NadReading =
  | { readonly kind: "ours"; readonly definition: NetworkDefinition }
  | { readonly kind: "not-ours" }
  | ({ readonly kind: "broken" } & BrokenNad);

/** Why a NAD defines nothing, and the network that it names; null: it names none. */
export interface BrokenNad {
  readonly network: string | null;
  readonly refusal: Refusal;
}

/** A network without ranges is invalid: in Kubernetes they cannot come from anywhere else. */
export function readNadConfig(config: string, nadName: string): NadReading {
  try {
    const nad = parseNadConfigIfOurs(config, nadName);
    if (nad === null) return { kind: "not-ours" };
    const { network, definition } = nad;
    if (definition.rangeSets.length > 0) return { kind: "ours", definition };
    return { kind: "broken", network, refusal: refuse("NETWORK_UNDEFINED", { network }) };
  } catch (error) {
    if (error instanceof RefusalError)
      return { kind: "broken", network: networkNameIn(config, nadName), refusal: error.refusal };
    throw error;
  }
}

interface Edition {
  readonly nad: { readonly uid: string; readonly generation: number; readonly config: string };
  readonly reading: NadReading;
}

/**
 * Ours, on one network, with the same addresses: those that could not be allocated before, such as a gateway or one
 * outside the subnets, were not imported either. `unbroken`: nothing has interrupted the watch in between.
 */
export function stays(before: Edition, after: Edition, unbroken: boolean): boolean {
  const [old, now] = [before.reading, after.reading];
  if (old.kind !== "ours" || now.kind !== "ours" || !follows(before.nad, after.nad, unbroken)) return false;
  const addressesOf = ({ rangeSets }: NetworkDefinition) => rangeSets.map((set) => set.fingerprint).join();
  return old.definition.name === now.definition.name && addressesOf(old.definition) === addressesOf(now.definition);
}

/** Whether no edition was missed in between: the generation increases by one, and starts again with a new UID. */
function follows(before: Edition["nad"], after: Edition["nad"], unbroken: boolean): boolean {
  if (after.uid !== before.uid) return false;
  if (after.generation === before.generation) return after.config === before.config;
  return unbroken && after.generation === before.generation + 1;
}

/** The one created first, then by key. The API server writes times in one form: as strings they compare as times. */
export function older<T extends { readonly nad: Pick<ObjectMetadata, "key" | "creationTimestamp"> }>(a: T, b: T): T {
  if (a.nad.creationTimestamp !== b.nad.creationTimestamp) {
    return a.nad.creationTimestamp < b.nad.creationTimestamp ? a : b;
  }
  return a.nad.key < b.nad.key ? a : b;
}
