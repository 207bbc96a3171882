import { isDeepStrictEqual } from "node:util";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { isPreallocation } from "../../ipam/owner.ts";
import { type Address, AddressSyntaxError, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { AllocationOwner } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { isAddressPool, type MachineAddressView, type MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { Clock } from "../../platform/time.ts";
import type { CachedAllocation } from "../reasons/caches.ts";
import type { PoolSpace } from "./pool-space.ts";

/** A pool to be counted. Without a space only what its claims hold is counted. */
export interface CountedPool {
  readonly key: string;
  readonly network: string;
  readonly space: PoolSpace | null;
}

export interface PoolCounts {
  /** Addresses that its claims hold, by network. */
  readonly held: ReadonlyMap<string, number>;
  /** Those of its network that are none of the pool's any more. */
  readonly outOfRange: number;
  /** Of the pool's addresses, by whoever. */
  readonly allocated: number;
  readonly cooling: number;
}

interface MachineObjects {
  readonly claims: ReadonlyMap<string, MachineClaimView>;
  readonly addresses: ReadonlyMap<string, MachineAddressView>;
}

interface Tally {
  readonly space: PoolSpace | null;
  readonly network: string;
  readonly held: Map<string, number>;
  outOfRange: number;
  allocated: number;
  cooling: number;
}

/** Counts pools in one go over the ledger. Other work runs in between. The result is by key of the pool. */
export async function countPools(
  pools: readonly CountedPool[],
  allocations: readonly CachedAllocation[],
  machines: MachineObjects,
  clock: Clock,
): Promise<ReadonlyMap<string, PoolCounts>> {
  const tallies = new Map<string, Tally>();
  const ofNetwork = new Map<string, Tally[]>();
  for (const { key, network, space } of pools) {
    const tally = { space, network, held: new Map(), outOfRange: 0, allocated: 0, cooling: 0 };
    tallies.set(key, tally);
    if (space !== null) ofNetwork.set(network, [...(ofNetwork.get(network) ?? []), tally]);
  }
  const budget = new TurnBudget(clock);
  for (const { object, address: text } of allocations) {
    if (budget.isSpent) await budget.nextTurn();
    if (text === null) continue;
    const { network, owner } = object.spec;
    const cooling = object.status?.state === "Cooling";
    const sharing = ofNetwork.get(network) ?? [];
    const own = cooling ? undefined : tallies.get(poolOfHolder(owner, machines) ?? "");
    if (own === undefined && sharing.length === 0) continue;
    const address = parseAddress(text);
    for (const tally of sharing) {
      if (!isOffered(tally.space, address)) continue;
      if (cooling) tally.cooling += 1;
      else tally.allocated += 1;
    }
    if (own === undefined) continue;
    own.held.set(network, (own.held.get(network) ?? 0) + 1);
    if (network === own.network && own.space !== null && !isOffered(own.space, address)) own.outOfRange += 1;
  }
  return tallies;
}

function isOffered(space: PoolSpace | null, { family, value }: Address): boolean {
  return space?.family === family && space.offered.contains(value);
}

/** The key of the pool that a claim or IPAddress names; null: the pool is another provider's. */
export function poolKeyOf({ namespace, pool }: Pick<MachineClaimView, "namespace" | "pool">): string | null {
  return isAddressPool(pool) ? `${namespace}/${pool.name}` : null;
}

/** The key of the pool that a bound address is of; null: none, or it is preallocated only. */
function poolOfHolder(owner: AllocationOwner, machines: MachineObjects): string | null {
  const key = `${owner.namespace}/${owner.name}`;
  if (owner.kind === "Metal3Data") return `${owner.namespace}/${owner.interface}`;
  if (owner.kind !== "IPAddressClaim" || isPreallocation(owner)) return null;
  const claim = machines.claims.get(key);
  // A claim that was created again under the name may be of another pool.
  const naming = claim?.uid === owner.uid ? claim : machines.addresses.get(key);
  return naming === undefined ? null : poolKeyOf(naming);
}

export function addressesByPool(
  addresses: Iterable<MachineAddressView>,
): ReadonlyMap<string, readonly MachineAddressView[]> {
  const byPool = new Map<string, MachineAddressView[]>();
  for (const address of addresses) {
    const key = poolKeyOf(address);
    if (key === null) continue;
    const known = byPool.get(key);
    if (known === undefined) byPool.set(key, [address]);
    else known.push(address);
  }
  return byPool;
}

export interface Unrecorded {
  /** The first that will be recorded, a sentence: until then it might be given to somebody else. null: none. */
  readonly awaited: string | null;
  /** Those that will not: another IPAddress answers the claim that they name, or will. Nobody else gets them. */
  readonly stray: readonly Address[];
}

/** Of the IPAddresses of a pool, those of claims that exist, with addresses that the network gives. */
export async function findUnrecorded(
  addresses: readonly MachineAddressView[],
  definition: NetworkDefinition,
  {
    claims,
    allocations,
  }: {
    readonly claims: ReadonlyMap<string, Pick<MachineClaimView, "addressRef" | "pool">>;
    readonly allocations: ReadonlyMap<string, CachedAllocation>;
  },
  budget: TurnBudget,
): Promise<Unrecorded> {
  let awaited: string | null = null;
  const stray: Address[] = [];
  for (const view of addresses) {
    if (budget.isSpent) await budget.nextTurn();
    const address = addressIn(view.address);
    const claim = claims.get(`${view.namespace}/${view.claim}`);
    if (address === null || claim === undefined) continue;
    const { usable } = placeOf(definition.rangeSets, address)?.subnet ?? {};
    if (!usable?.contains(address.value)) continue;
    const known = allocations.get(allocationName(definition.name, address));
    if (known?.object.status?.state === "Bound") continue;
    if (!isAnswer(view, claim)) stray.push(address);
    else
      awaited ??= `IPAddress ${view.key} has ${formatAddress(address)}, which is not recorded yet; it is recorded before anything is given`;
  }
  return { awaited, stray };
}

/** Whether an IPAddress is the one that answers the claim: it has the claim's name, and the claim names no other. */
export function isAnswer(
  { name, claim, pool }: MachineAddressView,
  { addressRef, pool: wanted }: Pick<MachineClaimView, "addressRef" | "pool">,
): boolean {
  return name === claim && (addressRef ?? name) === name && isDeepStrictEqual(pool, wanted);
}

/** null: the text is no address. */
export function addressIn(text: string): Address | null {
  try {
    return parseAddress(text);
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}
