import {
  allocationAt,
  type Claim,
  type Correction,
  claimOf,
  type State,
  type Step,
  sameAddresses,
  withAllocation,
  withClaim,
  withList,
} from "./model.ts";
import { hasAnything, projectionOf, saysSo, wantedNetwork } from "./projection.ts";
import { isUsable, type Rules } from "./rules.ts";

/** The part that writes claims: sees twice, then writes at the version that it has read. */
export function controllerSteps(state: State, rules: Rules): Step[] {
  return [...state.claims.keys()].flatMap((vm) => [
    ...correctionSteps(state, rules, vm),
    ...wishSteps(state, rules, vm),
  ]);
}

function correctionSteps(state: State, rules: Rules, vm: number): Step[] {
  const { correction, release } = state;
  if (correction !== null && correction.vm !== vm) return [];
  if (correction?.isSeenTwice) {
    // One claim at a time: nothing is written while a release of the same claim is under way.
    const isReleasing = release !== null && release.why !== null && release.owner === claimOf(state, vm).uid;
    return isReleasing ? [] : [write(state, correction)];
  }
  const to = projectionOf(state, rules, vm);
  const isRight = saysSo(state, vm, to);
  if (correction !== null) return [seeAgain(state, correction, isRight ? null : to)];
  if (isRight) return [];
  const seen: Correction = { vm, to, isSeenTwice: false, isStale: false };
  const text = `controller: claim ${vm} is to say network ${to.network}, [${to.ips}], seen once`;
  return [{ text, to: { ...state, correction: seen } }];
}

function seeAgain(state: State, correction: Correction, now: Correction["to"] | null): Step {
  const { vm, to, isStale } = correction;
  const isSame = now !== null && now.network === to.network && sameAddresses(now.ips, to.ips);
  if (isStale || !isSame) return { text: "controller: sees something else", to: { ...state, correction: null } };
  const text = `controller: has read claim ${vm} and all that it rests on`;
  return { text, to: { ...state, correction: { ...correction, isSeenTwice: true } } };
}

function write(state: State, { vm, to, isStale }: Correction): Step {
  const done = { ...state, correction: null };
  if (isStale) return { text: "controller: meets a conflict", to: done };
  const { network, ips } = to;
  const written = withClaim(withList(done, vm, ips), vm, { network });
  return { text: `controller: claim ${vm} says network ${network}, [${ips}]`, to: written };
}

/** Of a claim that has nothing, the first address that it lists is reserved, if an ADD could give it. */
function wishSteps(state: State, rules: Rules, vm: number): Step[] {
  const { faults } = rules;
  const claim = claimOf(state, vm);
  const isEmpty = !hasAnything(state, vm);
  const isHere = wantedNetwork(state, vm) === claim.network;
  const wishes = isEmpty && isHere ? claim.ips.slice(0, 1) : [];
  const listed = faults.has("every-wish") ? claim.ips : wishes;
  const mayGive = (address: number) =>
    isUsable(rules, address) || (faults.has("wish-excluded") && address === rules.world.gateway);
  return listed
    .filter((one) => mayGive(one) && allocationAt(state, claim.network, one) === null)
    .map((one) => reserve(state, vm, claim, one));
}

function reserve(state: State, vm: number, { uid, network }: Claim, address: number): Step {
  const text = `controller: reserves ${address} of network ${network}, which claim ${vm} lists`;
  return { text, to: withAllocation(state, network, address, { owner: uid, pods: [] }) };
}
