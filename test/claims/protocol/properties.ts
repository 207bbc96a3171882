import { violatedByAnswer, violatedByReserve, withPromises } from "./answers.ts";
import {
  allocationAt,
  claimOf,
  isGuest,
  OURS,
  ownedBy,
  podAt,
  promisedTo,
  type State,
  vmAt,
  vmOf,
  withStaleReadings,
} from "./model.ts";
import type { Rules } from "./rules.ts";
import { type Violated, violates } from "./violation.ts";

/** A state after a step with what the step has changed for everybody, and the property that it violates. */
export interface Checked {
  readonly state: State;
  readonly violated: Violated | null;
}

export function check(before: State, stepped: State, rules: Rules): Checked {
  const after = withStaleReadings(before, stepped);
  const answered = violatedByAnswer(before, after, rules) ?? violatedByReserve(before, after);
  const state = withPromises(before, after, rules);
  const violated =
    answered ?? violatedByGuests(state) ?? violatedByRelease(before, state) ?? violatedByWish(state, rules);
  return { state, violated };
}

/** What runs is at guests of one VM, and its claim's. */
function violatedByGuests(state: State): Violated | null {
  for (const [pod, guest] of state.pods.entries()) {
    if (!isGuest(guest)) continue;
    const { network, address } = guest;
    const vm = vmOf(pod);
    for (let other = pod + 1; other < state.pods.length; other += 1) {
      const one = podAt(state, other);
      if (vmOf(other) !== vm && isGuest(one) && one.network === network && one.address === address)
        return violates("given-twice", `${address} of network ${network} is at guests of two VMs`);
    }
    const owner = allocationAt(state, network, address)?.owner;
    const isLivingClaim = state.claims.some(({ uid }) => uid === owner);
    if (owner === undefined)
      return violates("taken-away", `${address} of network ${network} runs at VM ${vm} and is nobody's`);
    if (owner !== claimOf(state, vm).uid && isLivingClaim)
      return violates("taken-away", `${address} of network ${network} runs at VM ${vm} and is another's`);
  }
  return null;
}

/** What is released is not what its VM is to have again. */
function violatedByRelease(before: State, after: State): Violated | null {
  if (before.allocations === after.allocations) return null;
  for (const network of OURS)
    for (const [address, was] of (before.allocations[network] ?? []).entries()) {
      if (was === null || allocationAt(after, network, address) !== null) continue;
      const vm = after.claims.findIndex(({ uid }) => uid === was.owner);
      if (vm < 0 || vmAt(after, vm).network !== network) continue;
      const { address: had, former, isAny } = promisedTo(after, vm, network);
      const isGivenUp = former !== null && vmAt(after, vm).asks !== address && claimOf(after, vm).ips[0] !== address;
      if (had === address && !isAny && !isGivenUp)
        return violates("taken-away", `${address} of network ${network} is released, and VM ${vm} is to have it again`);
    }
  return null;
}

/** What no list may reach. */
function violatedByWish(state: State, { world }: Rules): Violated | null {
  const { gateway, hasOnlyWishes } = world;
  for (const network of OURS) {
    if (gateway !== undefined && allocationAt(state, network, gateway) !== null)
      return violates("reserved-by-list", `the excluded ${gateway} of network ${network} is reserved`);
    // One by a wish, and one by an ADD that has begun before.
    if (hasOnlyWishes && state.claims.some(({ uid }) => ownedBy(state, uid, network).length > 2))
      return violates("reserved-by-list", `a claim has several addresses of network ${network} by what its list says`);
  }
  return null;
}
