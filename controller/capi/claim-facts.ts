import type { ServedPool } from "../../claims/pools/evaluate-pool.ts";
import { parseRequestedAddress, type RequestedAddress } from "../../ipam/definition/requested-address.ts";
import type { Owner } from "../../ipam/owner.ts";
import { type Refusal, RefusalError } from "../../ipam/refusals.ts";
import { type Address, formatAddress, sameAddress } from "../../ipam/space/address.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import type { MachineClaimFailure } from "../../kube/views/machine-claim-status.ts";
import type { CapiClusterView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { ReserveWant } from "../../store/allocations.ts";
import type { PoolState } from "./pools.ts";

const REQUEST_SOURCE = "the annotation that requests an address (ipam.holdfast.dev/address, ipAddress)";

export interface ClaimFailure {
  readonly reason: MachineClaimFailure;
  /** What, and what to do about it. The same text as long as it is so: a status is written only when it changes. */
  readonly message: string;
  /** It often ends within seconds by itself: nobody is told of it at once. */
  readonly isBrief?: boolean;
}

export function ownerOfMachineClaim({ uid, namespace, name, cluster }: MachineClaimView): Owner {
  const named = cluster === null ? {} : { cluster };
  return { kind: "addressClaim", uid, interface: "", namespace, name, ...named };
}

/**
 * Why nothing is written for a claim, as Cluster API has it: somebody moves it, it goes, or its Cluster is not there.
 * null: it is served. `clusters`: by `namespace/name`.
 */
export function whyHalted(
  { deletionTimestamp, paused, cluster, namespace }: MachineClaimView,
  clusters: ReadonlyMap<string, CapiClusterView>,
): string | null {
  if (deletionTimestamp !== null) return "it is being deleted";
  if (paused) return "it is paused";
  if (cluster === null) return null;
  const found = clusters.get(`${namespace}/${cluster}`);
  if (found === undefined) return `there is no Cluster ${cluster}`;
  return found.paused ? `Cluster ${cluster} is paused` : null;
}

export function failureOfPool(name: string, state: Exclude<PoolState, { kind: "served" | "unsettled" }>): ClaimFailure {
  if (state.kind === "absent")
    return { reason: "PoolNotReady", message: `AddressPool ${name} does not exist; create it` };
  // Metal3's controller answers such claims: more than waiting is needed.
  const reason = state.reason === "NameTaken" ? "AllocationFailed" : "PoolNotReady";
  return { reason, message: `AddressPool ${name} gives nothing now (${state.reason}): ${state.message}` };
}

export function failureOfRefusal(poolName: string, refusal: Refusal): ClaimFailure {
  const { code, message, hint } = refusal;
  switch (code) {
    case "POOL_FULL":
      return {
        reason: "PoolExhausted",
        message: `AddressPool ${poolName} has no free address; give it or its network another range, or delete claims that are not needed (holdfast show ${refusal.about.network} lists the holders)`,
      };
    case "NETWORK_RECOVERING":
      return {
        reason: "PoolNotReady",
        message: `network ${refusal.about.network} recovers: the API server was away or has an older state, and no new address is given until the nodes have put back what they use; it is tried again`,
        isBrief: true,
      };
    case "CONFIG_INVALID":
      return { reason: "AllocationFailed", message };
    default:
      return { reason: "AllocationFailed", message: `${message}; ${hint}` };
  }
}

/** A preallocated address is the only one that will do, as a requested one is. `told`: before; null: not known. */
export function wantOf(
  claim: MachineClaimView,
  pool: ServedPool,
  sent: Address | null,
): { readonly want: ReserveWant; readonly isAny: boolean } | ClaimFailure {
  const { definition, family, view } = pool;
  const preallocated = pool.preallocated.get(claim.name) ?? null;
  const requested = requestedOf(claim);
  if (requested !== null && "reason" in requested) return requested;
  if (preallocated !== null && requested !== null && !sameAddress(preallocated, requested.address)) {
    const message = `${REQUEST_SOURCE} asks for ${formatAddress(requested.address)}, and AddressPool ${view.name} keeps ${formatAddress(preallocated)} for this claim; make them equal, or remove one`;
    return { reason: "AllocationFailed", message };
  }
  const source = `spec.preallocations.${claim.name} of AddressPool ${view.name}`;
  const only = preallocated === null ? requested : { address: preallocated, prefixLength: null, source };
  const within = preallocated === null ? pool.requestable : pool.requestable.union(alone(preallocated));
  const want: ReserveWant = {
    owner: ownerOfMachineClaim(claim),
    network: definition.name,
    definition,
    request: {
      ...{ kind: "single", family, within, automatic: pool.usable, requested: only },
      preferred: sent ?? undefined,
    },
  };
  return { want, isAny: only === null };
}

export function gives(pool: ServedPool, claim: string, address: Address): boolean {
  if (address.family !== pool.family) return false;
  const preallocated = pool.preallocated.get(claim);
  return pool.requestable.contains(address.value) || (preallocated !== undefined && sameAddress(preallocated, address));
}

function requestedOf({ requested }: MachineClaimView): RequestedAddress | ClaimFailure | null {
  if (requested === null) return null;
  try {
    return parseRequestedAddress(requested, REQUEST_SOURCE);
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { reason: "AllocationFailed", message: error.message };
  }
}

function alone({ value }: Address): IntervalSet {
  return IntervalSet.of(value, value);
}
