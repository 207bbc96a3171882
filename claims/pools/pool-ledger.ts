import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Address, AddressSyntaxError, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { allocationName } from "../../kube/object-names.ts";
import { type AllocationOwner, API_VERSION } from "../../kube/objects.ts";
import type { MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { CachedAllocation } from "../reasons/caches.ts";

/** Prefix of the UID of a preallocation's owner, before the UID of its pool. */
const PREALLOCATED_BY = "pool:";
const POOL_GROUP = API_VERSION.split("/")[0];
const POOL_KIND = "AddressPool";

/** The UID of the pool that preallocates an address; null: the owner is no preallocation. */
function preallocatingPool({ uid }: Pick<AllocationOwner, "uid">): string | null {
  return uid.startsWith(PREALLOCATED_BY) ? uid.slice(PREALLOCATED_BY.length) : null;
}

/** The key of the AddressPool that a claim or IPAddress names; null: the pool is another provider's. */
export function poolKeyOf({ namespace, pool }: Pick<MachineClaimView, "namespace" | "pool">): string | null {
  return pool.apiGroup === POOL_GROUP && pool.kind === POOL_KIND ? `${namespace}/${pool.name}` : null;
}

/** What Cluster API's objects tell of a machine's pool. */
interface MachineObjects {
  readonly claims: ReadonlyMap<string, MachineClaimView>;
  readonly addresses: ReadonlyMap<string, MachineAddressView>;
}

/** The key of the pool that a bound address is of; null: none, or it is preallocated only. */
export function poolOfHolder(owner: AllocationOwner, machines: MachineObjects): string | null {
  const key = `${owner.namespace}/${owner.name}`;
  if (owner.kind === "Metal3Data") return `${owner.namespace}/${owner.interface}`;
  if (owner.kind !== "IPAddressClaim" || preallocatingPool(owner) !== null) return null;
  const claim = machines.claims.get(key);
  // A claim that was created again under the name may be of another pool.
  const naming = claim?.uid === owner.uid ? claim : machines.addresses.get(key);
  return naming === undefined ? null : poolKeyOf(naming);
}

/**
 * An IPAddress whose address might be given to somebody else, because nothing in the ledger holds it: of a claim that
 * exists, in what the network gives. Its claim has it recorded. null: there is none.
 */
export function firstUnrecorded(
  addresses: Iterable<MachineAddressView>,
  definition: NetworkDefinition,
  {
    claims,
    allocations,
  }: {
    readonly claims: ReadonlyMap<string, MachineClaimView>;
    readonly allocations: ReadonlyMap<string, CachedAllocation>;
  },
): string | null {
  for (const view of addresses) {
    const address = parsed(view.address);
    if (address === null || !claims.has(`${view.namespace}/${view.claim}`)) continue;
    const { usable } = placeOf(definition.rangeSets, address)?.subnet ?? {};
    if (!usable?.contains(address.value)) continue;
    const known = allocations.get(allocationName(definition.name, address));
    if (known?.object.status?.state === "Bound") continue;
    return `IPAddress ${view.key} has ${formatAddress(address)}, which is not recorded yet; it is recorded before anything is given`;
  }
  return null;
}

/** null: it is no address. */
function parsed(text: string): Address | null {
  try {
    return parseAddress(text);
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}
