import { isSound } from "../../allocations/allocation-object.ts";
import { describeHolder, fromAllocationOwner } from "../../allocations/owners.ts";
import { FormerHolders } from "../../ipam/former-holders.ts";
import { OWNER_KINDS } from "../../ipam/owner.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { ClusterSnapshot } from "./snapshot.ts";

/**
 * A claim counts with what it lists, because that is what its VM gets; machines of Cluster API ask for single
 * addresses, and keep those.
 */
export function formerHoldersIn({
  catalog,
  allocations,
  claims,
}: Pick<ClusterSnapshot, "catalog" | "allocations" | "claims">): FormerHolders {
  const found = new FormerHolders();
  const judge = (network: string, holder: string, held: readonly InterfaceAddress[]) => {
    const definition = catalog.definitionOf(network)?.definition;
    if (definition !== undefined) found.judge(definition, holder, held);
  };
  for (const { key, network, ips } of claims.items.values()) judge(network, `claim ${key}`, ips.flatMap(readable));
  const ofPods = new Map<string, { network: string; holder: string; held: InterfaceAddress[] }>();
  for (const { object } of allocations.values()) {
    if (!isSound(object) || object.status?.state !== "Bound") continue;
    const { owner, network, address } = object.spec;
    if (OWNER_KINDS[fromAllocationOwner(owner).kind].outlivesAttachments) continue;
    const key = JSON.stringify([network, owner.kind, owner.uid, owner.interface ?? ""]);
    const known = ofPods.get(key) ?? { network, holder: describeHolder(owner), held: [] };
    ofPods.set(key, known);
    known.held.push(...readable(address));
  }
  for (const { network, holder, held } of ofPods.values()) judge(network, holder, held);
  return found;
}

/** What cannot be read is a finding of its own. */
function readable(text: string): InterfaceAddress[] {
  try {
    return [parseInterfaceAddress(text)];
  } catch {
    return [];
  }
}
