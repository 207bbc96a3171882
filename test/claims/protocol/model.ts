/*
 * test/claims/protocol/: every order of requests about a claim, in small worlds (README.md)
 *
 *   model                    what is there, and what each process has read of it; state-key: its text
 *   rules                    what a world and a fault may change
 *   add, controller, sweep   the product's parts, one request a step; projection: what they agree on
 *   around                   what happens around them: virt-controller, nodes, people, strangers
 *   answers, properties      what must hold after each step
 *   outlook                  what must come of a state: an ADD alone, the controller alone
 *   search                   breadth first, to the end of a world; violation: what it finds
 *   worlds, faults           the worlds, and what must be found in them
 */

import type { Act, Rules } from "./rules.ts";

/** The network of another plugin; 0 and 1 are ours, and have the same addresses. */
export const NOWHERE = 2;
export const OURS = [0, 1] as const;

/** An IPAllocation. Network and address are its name, so each exists once. */
export interface Allocation {
  /** UID of a claim. */
  readonly owner: number;
  /** Attached pods, ascending. */
  readonly pods: readonly number[];
}

/** An IPAMClaim. Each write replaces the object: two readings are of one version where they are one object. */
export interface Claim {
  readonly uid: number;
  /** Its VM is its owner. */
  readonly isOwned: boolean;
  /** `spec.network`, the pointer. */
  readonly network: number;
  /** `status.ips`, the list. */
  readonly ips: readonly number[];
  /** Something has written its status. */
  readonly isWritten: boolean;
}

export interface Vm {
  /** Where it is to be: by its VMI, else by its template. */
  readonly network: number;
  readonly asks: number | null;
  readonly runs: boolean;
  /** VMIs that it has had since its claim exists; 2: several. */
  readonly instances: 0 | 1 | 2;
}

/** What an ADD has read of its claim. */
export interface Reading {
  readonly uid: number;
  readonly network: number;
  readonly ips: readonly number[];
  readonly isWritten: boolean;
}

/** An ADD that has read its claim. */
export interface Reader {
  readonly next: "follow" | "find";
  readonly claim: Reading;
  /** Somebody has written the claim since. */
  readonly isStale: boolean;
}

/** An ADD that knows addresses of its claim. */
export interface Finder {
  readonly next: "list" | "hold";
  readonly claim: Reading;
  readonly isStale: boolean;
  readonly own: readonly number[];
}

/** An ADD that writes its claim. */
export interface Publisher {
  readonly next: "publish" | "hold-published";
  readonly uid: number;
  readonly isStale: boolean;
  readonly address: number;
}

/** An ADD that has all it needs. */
export interface Answerer {
  readonly next: "answer";
  readonly address: number;
}

/** The request that an ADD sends next, and what it knows by then. */
export type Add = { readonly next: "read" } | Reader | Finder | Publisher | Answerer;

/** A launcher pod. */
export interface Pod {
  /** lost: its object is gone, its guest runs on. */
  readonly phase: "absent" | "pending" | "up" | "ending" | "lost";
  readonly network: number;
  readonly asks: number | null;
  /** Of a migration. */
  readonly isTarget: boolean;
  readonly add: Add;
  /** As answered. */
  readonly address: number | null;
}

/** What list and pointer of a claim are to say. */
export interface Projection {
  readonly network: number;
  readonly ips: readonly number[];
}

/** What the controller has seen, once or twice. */
export interface Correction {
  readonly vm: number;
  readonly to: Projection;
  readonly isSeenTwice: boolean;
  readonly isStale: boolean;
}

/** What the sweep has seen, once or twice. */
export interface Release {
  readonly network: number;
  readonly address: number;
  readonly owner: number;
  /** The verdict, once it is seen twice. */
  readonly why: string | null;
  readonly isStale: boolean;
}

/** What a VM is to get again on a network. */
export interface Promised {
  readonly address: number | null;
  /** What it had before it asked for another one: as right, until it is released (R2 of README.md). */
  readonly former: number | null;
  /** A stranger has written while the claim had several: each of them is right (R1). */
  readonly isAny: boolean;
}

export interface State {
  /** By network and address. */
  readonly allocations: readonly (readonly (Allocation | null)[])[];
  /** By VM, as `vms` and `promised`. */
  readonly claims: readonly Claim[];
  readonly vms: readonly Vm[];
  /** Two of each VM. */
  readonly pods: readonly Pod[];
  readonly correction: Correction | null;
  readonly release: Release | null;
  readonly promised: readonly (readonly Promised[])[];
  /** What may still happen, so often. */
  readonly left: Readonly<Partial<Record<Act, number>>>;
}

/** Something happens: one request, or what somebody does. */
export interface Step {
  readonly text: string;
  readonly to: State;
}

export const NOT_BEGUN: Add = { next: "read" };
export const NO_POD: Pod = { phase: "absent", network: -1, asks: null, isTarget: false, add: NOT_BEGUN, address: null };
export const ENDING_POD: Pod = { ...NO_POD, phase: "ending" };
export const NOTHING_PROMISED: Promised = { address: null, former: null, isAny: false };

/** UIDs of claims are so far apart that a restored one has its own, and all begin to search at one address. */
const UID_FIRST = 10;
const UID_STEP = 3;

export function firstState({ world, addresses }: Rules): State {
  const vms = Array.from({ length: world.vms ?? 1 }, (_, vm) => vm);
  const state: State = {
    allocations: OURS.map(() => Array<null>(addresses).fill(null)),
    claims: vms.map((vm) => ({
      uid: UID_FIRST + UID_STEP * vm,
      isOwned: !world.isWithoutVm,
      network: 0,
      ips: [],
      isWritten: false,
    })),
    vms: vms.map(() => ({ network: 0, asks: null, runs: false, instances: 0 })),
    pods: vms.flatMap(() => [NO_POD, NO_POD]),
    correction: null,
    release: null,
    promised: vms.map(() => OURS.map(() => NOTHING_PROMISED)),
    left: world.may,
  };
  return world.begin?.(state) ?? state;
}

export const vmOf = (pod: number): number => pod >> 1;
export const slotsOf = (vm: number): readonly number[] => [2 * vm, 2 * vm + 1];
export const podsOf = ({ pods }: State, vm: number): readonly Pod[] => [pods[2 * vm] as Pod, pods[2 * vm + 1] as Pod];
export const podAt = ({ pods }: State, pod: number): Pod => pods[pod] as Pod;
export const claimOf = ({ claims }: State, vm: number): Claim => claims[vm] as Claim;
export const vmAt = ({ vms }: State, vm: number): Vm => vms[vm] as Vm;
export const promisedTo = ({ promised }: State, vm: number, network: number): Promised =>
  promised[vm]?.[network] as Promised;
export const allocationAt = ({ allocations }: State, network: number, address: number): Allocation | null =>
  allocations[network]?.[address] ?? null;

export const isLiving = ({ phase }: Pod): boolean => phase === "pending" || phase === "up" || phase === "lost";
/** Its guest runs, whether its object is there or not. */
export const isRunning = ({ phase }: Pod): boolean => phase === "up" || phase === "lost";
/** Its guest runs with an address of ours. */
export const isGuest = (pod: Pod): pod is Pod & { readonly address: number } => isRunning(pod) && pod.address !== null;

/** Addresses of a network that belong to a UID, ascending. */
export function ownedBy({ allocations }: State, uid: number, network: number): number[] {
  const own: number[] = [];
  for (const [address, allocation] of (allocations[network] ?? []).entries())
    if (allocation?.owner === uid) own.push(address);
  return own;
}

export const isOwnedBy = (state: State, uid: number, network: number, address: number): boolean =>
  allocationAt(state, network, address)?.owner === uid;

export function sameAddresses(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((address, index) => address === b[index]);
}

export function withPod(state: State, pod: number, change: Partial<Pod>): State {
  return { ...state, pods: state.pods.with(pod, { ...podAt(state, pod), ...change }) };
}

export function withVm(state: State, vm: number, change: Partial<Vm>): State {
  return { ...state, vms: state.vms.with(vm, { ...vmAt(state, vm), ...change }) };
}

export function withClaim(state: State, vm: number, change: Partial<Claim>): State {
  return { ...state, claims: state.claims.with(vm, { ...claimOf(state, vm), ...change }) };
}

/** A write of the list, which leaves a status behind whatever it says. */
export function withList(state: State, vm: number, ips: readonly number[]): State {
  return withClaim(state, vm, { ips, isWritten: true });
}

export function withAllocation(state: State, network: number, address: number, to: Allocation | null): State {
  const { allocations } = state;
  const changed = (allocations[network] as readonly (Allocation | null)[]).with(address, to);
  return { ...state, allocations: allocations.with(network, changed) };
}

/** Ends the attachments of a pod, but where it is to stay. */
export function detached(state: State, pod: number, stays: Allocation | null = null): State {
  const allocations = state.allocations.map((ofNetwork) =>
    ofNetwork.map((allocation) =>
      allocation === null || allocation === stays || !allocation.pods.includes(pod)
        ? allocation
        : { ...allocation, pods: allocation.pods.filter((one) => one !== pod) },
    ),
  );
  return { ...state, allocations };
}

/**
 * Versions: what somebody has read of an object before this step wrote it is stale from here, and a write that rests on
 * it meets a conflict.
 */
export function withStaleReadings(before: State, after: State): State {
  let state = after;
  const { release, correction } = after;
  if (release !== null && !release.isStale && before.release !== null) {
    const { network, address } = release;
    if (allocationAt(before, network, address) !== allocationAt(after, network, address))
      state = { ...state, release: { ...release, isStale: true } };
  }
  if (before.claims === after.claims) return state;
  for (const [vm, claim] of after.claims.entries()) {
    if (claim === before.claims[vm]) continue;
    if (correction?.vm === vm && before.correction !== null && !correction.isStale)
      state = { ...state, correction: { ...correction, isStale: true } };
    for (const slot of slotsOf(vm)) {
      const { add } = podAt(state, slot);
      if ("isStale" in add && !add.isStale) state = withPod(state, slot, { add: { ...add, isStale: true } });
    }
  }
  return state;
}
