import {
  allocationAt,
  claimOf,
  isOwnedBy,
  NOWHERE,
  OURS,
  ownedBy,
  podAt,
  type Release,
  type State,
  type Step,
  vmAt,
  withAllocation,
} from "./model.ts";
import { countingAddress, hasLeft, isAskedFor, isProjected, wantedNetwork } from "./projection.ts";
import type { Rules } from "./rules.ts";

/** Why an allocation is released, by what can be read now; null: it is kept. */
function verdict(state: State, rules: Rules, network: number, address: number): string | null {
  const { faults } = rules;
  const allocation = allocationAt(state, network, address);
  if (allocation === null) return null;
  const { owner, pods } = allocation;
  const hasEnded = (pod: number) => faults.has("gone-pod-has-ended") && podAt(state, pod).phase === "lost";
  if (!pods.every(hasEnded)) return null;
  const vm = state.claims.findIndex(({ uid }) => uid === owner);
  if (vm < 0) return "its claim is gone";
  const { network: pointer, ips } = claimOf(state, vm);
  if (faults.has("sweep-by-pointer")) return pointer === network ? null : "spec.network is another";
  if (faults.has("sweep-unlisted") && !ips.includes(address)) return "not listed";
  const ignoresClaim = faults.has("released-before-listed") || faults.has("sweep-unlisted");
  if (!ignoresClaim && !isProjected(state, rules, vm)) return null;
  return verdictByUse(state, rules, { vm, network, address });
}

interface Had {
  readonly vm: number;
  readonly network: number;
  readonly address: number;
}

/** Of what a living claim has, says that it has, and nobody is attached to. */
function verdictByUse(state: State, rules: Rules, { vm, network, address }: Had): string | null {
  const { faults } = rules;
  const { uid, ips } = claimOf(state, vm);
  const counts = countingAddress(state, rules, vm, network) === address;
  const isAsked = isAskedFor(state, vm, network, address);
  const wanted = wantedNetwork(state, vm);
  if (!faults.has("asked-counts") && !counts && !isAsked) return "another counts";
  if (wanted === NOWHERE) return hasLeft(state, rules, vm) ? "its VM runs with another plugin" : null;
  if (wanted === network) {
    if (faults.has("asked-does-not-keep") && !counts) return "another counts";
    const { asks } = vmAt(state, vm);
    const hasAsked = asks !== null && isOwnedBy(state, uid, network, asks);
    return faults.has("asked-counts") && hasAsked && !isAsked ? "another counts" : null;
  }
  const arrived = ownedBy(state, uid, wanted).some(
    (one) => ips.includes(one) || (allocationAt(state, wanted, one)?.pods.length ?? 0) > 0,
  );
  return arrived || faults.has("moved-by-wish-alone") ? "its VM has moved" : null;
}

/** The same verdict about the same object twice, then a release at the version that was read. */
export function sweepSteps(state: State, rules: Rules): Step[] {
  const { release } = state;
  if (release === null) return firstLooks(state, rules);
  if (release.why !== null) return [write(state, rules, release, release.why)];
  const { network, address, owner, isStale } = release;
  const why = verdict(state, rules, network, address);
  if (why === null || isStale) return [{ text: "sweep: sees something else", to: { ...state, release: null } }];
  const { correction } = state;
  if (correction?.isSeenTwice && claimOf(state, correction.vm).uid === owner) return [];
  const text = `sweep: has read all that ${address} of network ${network} rests on`;
  return [{ text, to: { ...state, release: { ...release, why } } }];
}

function firstLooks(state: State, rules: Rules): Step[] {
  const steps: Step[] = [];
  for (const network of OURS)
    for (let address = 0; address < rules.addresses; address += 1) {
      const why = verdict(state, rules, network, address);
      const owner = allocationAt(state, network, address)?.owner;
      if (why === null || owner === undefined) continue;
      const release: Release = { network, address, owner, why: null, isStale: false };
      const text = `sweep: ${address} of network ${network}: ${why}, seen once`;
      steps.push({ text, to: { ...state, release } });
    }
  return steps;
}

function write(state: State, { faults }: Rules, { network, address, isStale }: Release, why: string): Step {
  const done = { ...state, release: null };
  if (isStale && !faults.has("release-any-version")) return { text: "sweep: meets a conflict", to: done };
  const text = `sweep: releases ${address} of network ${network}: ${why}`;
  return { text, to: withAllocation(done, network, address, null) };
}
