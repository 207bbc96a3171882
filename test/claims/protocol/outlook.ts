import { addStep } from "./add.ts";
import { controllerSteps } from "./controller.ts";
import { allocationAt, claimOf, NOWHERE, OURS, podAt, type State, vmAt, vmOf, withStaleReadings } from "./model.ts";
import { countingAddress, isAskedFor, wantedNetwork } from "./projection.ts";
import { check } from "./properties.ts";
import type { Rules } from "./rules.ts";
import { sweepSteps } from "./sweep.ts";
import { type Violated, violates } from "./violation.ts";

const ADD_STEPS_MAX = 30;
const REST_STEPS_MAX = 120;

/** What is wrong with the ADD of a pod, if nothing else happens. */
export function whatAddMisses(from: State, rules: Rules, pod: number): Violated | null {
  let state = from;
  for (let count = 0; count < ADD_STEPS_MAX; count += 1) {
    const { text, to } = addStep(state, rules, pod);
    const checked = check(state, to, rules);
    if (checked.violated !== null) return checked.violated;
    state = checked.state;
    const { phase, network, asks, add } = podAt(state, pod);
    if (phase === "up") return null;
    if (add.next !== "read") continue;
    const holder = asks === null ? undefined : allocationAt(state, network, asks)?.owner;
    const isAnothers = holder !== undefined && holder !== claimOf(state, vmOf(pod)).uid;
    return isAnothers ? null : violates("unanswered", text);
  }
  return violates("unanswered", "an ADD does not end");
}

/** What is wrong once controller and sweep have nothing more to do. */
export function whatRestMisses(from: State, rules: Rules): Violated | null {
  let state = from;
  for (let count = 0; count < REST_STEPS_MAX; count += 1) {
    const steps = [...controllerSteps(state, rules), ...sweepSteps(state, rules)];
    const step = state.release !== null && count % 2 === 1 ? steps.at(-1) : steps[0];
    if (step === undefined) return whatIsKeptForNothing(state, rules) ?? whatIsSaidWrong(state, rules);
    state = withStaleReadings(state, step.to);
  }
  return violates("not-at-rest", "controller and sweep do not come to rest");
}

function whatIsKeptForNothing(state: State, rules: Rules): Violated | null {
  for (const network of OURS)
    for (const [address, allocation] of (state.allocations[network] ?? []).entries()) {
      if (allocation === null || allocation.pods.length > 0) continue;
      const what = `${address} of network ${network}`;
      const vm = state.claims.findIndex(({ uid }) => uid === allocation.owner);
      if (vm < 0) return violates("not-at-rest", `the claim of ${what} is gone`);
      const counts = countingAddress(state, rules, vm, network) === address;
      if (!counts && !isAskedFor(state, vm, network, address))
        return violates("not-at-rest", `nobody has a reason for ${what}`);
      const wanted = wantedNetwork(state, vm);
      const isElsewhere = wanted !== network && wanted !== NOWHERE;
      if (isElsewhere && countingAddress(state, rules, vm, wanted) !== null)
        return violates("not-at-rest", `${what} is kept for nothing`);
    }
  return null;
}

function whatIsSaidWrong(state: State, rules: Rules): Violated | null {
  for (const [vm, { network, ips }] of state.claims.entries()) {
    const counting = OURS.map((one) => countingAddress(state, rules, vm, one));
    const wanted = wantedNetwork(state, vm);
    if (counting.every((address) => address === null)) continue;
    const says = `claim ${vm} says network ${network}, [${ips}]`;
    if (ips.length === 0 || counting[network] !== ips[0])
      return violates("not-at-rest", `${says}, and has something else`);
    if (network !== wanted && counting[wanted] != null)
      return violates("not-at-rest", `${says}, and its VM is on ${vmAt(state, vm).network}`);
  }
  return null;
}
