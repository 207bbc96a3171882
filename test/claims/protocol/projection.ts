import {
  allocationAt,
  claimOf,
  isLiving,
  isOwnedBy,
  isRunning,
  NOWHERE,
  OURS,
  ownedBy,
  type Projection,
  podAt,
  podsOf,
  type State,
  sameAddresses,
  vmAt,
  vmOf,
} from "./model.ts";
import type { Rules } from "./rules.ts";

/** Where a claim is wanted: by its VM, without one by its own pointer. */
export function wantedNetwork(state: State, vm: number): number {
  const { isOwned, network } = claimOf(state, vm);
  return isOwned ? vmAt(state, vm).network : network;
}

/**
 * Of what a claim has on a network, the address that its VM is to get: what a launcher runs with, else the first that
 * is listed, else the first; null where it has nothing.
 */
export function countingAddress(state: State, { faults }: Rules, vm: number, network: number): number | null {
  const { uid, ips } = claimOf(state, vm);
  const own = ownedBy(state, uid, network);
  if (own.length < 2) return own[0] ?? null;
  const inUse = faults.has("attached-is-used") ? isLiving : isRunning;
  const isUsed = (address: number) =>
    allocationAt(state, network, address)?.pods.some((pod) => vmOf(pod) === vm && inUse(podAt(state, pod)));
  const inOrder = [...ips.filter((one) => own.includes(one)), ...own];
  return inOrder.find(isUsed) ?? inOrder[0] ?? null;
}

/** A launcher runs on another plugin's network, where the VM is to be, and none is on one of ours. */
export function hasLeft(state: State, { faults }: Rules, vm: number): boolean {
  if (wantedNetwork(state, vm) !== NOWHERE) return false;
  if (faults.has("left-by-template")) return true;
  const pods = podsOf(state, vm);
  const runsElsewhere = pods.some(({ phase, network }) => phase === "up" && network === NOWHERE);
  return runsElsewhere && !pods.some((pod) => isLiving(pod) && pod.network !== NOWHERE);
}

/** What list and pointer of a claim are to say by what it has. */
export function projectionOf(state: State, rules: Rules, vm: number): Projection {
  const { uid, network: pointer, ips } = claimOf(state, vm);
  const counting = OURS.map((network) => countingAddress(state, rules, vm, network));
  if (counting.every((address) => address === null))
    return { network: pointer, ips: hasLeft(state, rules, vm) ? [] : ips };
  const wanted = wantedNetwork(state, vm);
  const network = [wanted, pointer].find((one) => counting[one] != null) ?? 1 - pointer;
  const kept = OURS.flatMap((one) =>
    ownedBy(state, uid, one).filter((address) => {
      if (one !== network && address === counting[one]) return true;
      if (one === wanted && address === vmAt(state, vm).asks) return true;
      return (allocationAt(state, one, address)?.pods.length ?? 0) > 0;
    }),
  );
  return { network, ips: [...new Set([counting[network] as number, ...kept])].slice(0, rules.entriesMax) };
}

export function isProjected(state: State, rules: Rules, vm: number): boolean {
  return saysSo(state, vm, projectionOf(state, rules, vm));
}

export function saysSo(state: State, vm: number, { network, ips }: Projection): boolean {
  const claim = claimOf(state, vm);
  return network === claim.network && sameAddresses(ips, claim.ips);
}

/** What the VM asks for where it is to be: kept, as soon as the claim has it. */
export function isAskedFor(state: State, vm: number, network: number, address: number): boolean {
  return wantedNetwork(state, vm) === network && vmAt(state, vm).asks === address;
}

export function hasAnything(state: State, vm: number): boolean {
  const { uid } = claimOf(state, vm);
  return OURS.some((network) =>
    state.allocations[network]?.some((_, address) => isOwnedBy(state, uid, network, address)),
  );
}
