import {
  allocationAt,
  claimOf,
  isGuest,
  isOwnedBy,
  NOTHING_PROMISED,
  NOWHERE,
  OURS,
  ownedBy,
  type Promised,
  podAt,
  podsOf,
  promisedTo,
  type State,
  vmAt,
  vmOf,
} from "./model.ts";
import type { Rules } from "./rules.ts";
import { type Violated, violates } from "./violation.ts";

/** What is wrong with what this step has answered; null: nothing, or it has answered nothing. */
export function violatedByAnswer(before: State, after: State, { world }: Rules): Violated | null {
  if (before.pods === after.pods) return null;
  for (const [pod, { phase, network, address, asks }] of after.pods.entries()) {
    if (phase !== "up" || address === null || podAt(before, pod).phase !== "pending") continue;
    if (address === world.gateway) return violates("reserved-by-list", `the excluded ${address} is answered`);
    const vm = vmOf(pod);
    const source = podAt(after, pod ^ 1);
    if (source.phase === "up" && isGuest(source) && source.network === network && source.address !== address)
      return violates(
        "another-address",
        `the target of a migration gets ${address}, its source runs with ${source.address} on network ${network}`,
      );
    const { address: had, former, isAny } = promisedTo(after, vm, network);
    const isRight = had === null || had === address || asks === address || former === address || isAny;
    if (!isRight)
      return violates(
        "another-address",
        `VM ${vm} was answered ${had} on network ${network}, stayed there, and gets ${address}`,
      );
  }
  return null;
}

/**
 * Whether an ADD has reserved another address than the VM was answered, although its claim has that one. One that was
 * the claim's when the ADD looked may be reserved again: the sweep has released it since.
 */
export function violatedByReserve(before: State, after: State): Violated | null {
  if (before.allocations === after.allocations) return null;
  for (const network of OURS)
    for (const [address, allocation] of (after.allocations[network] ?? []).entries()) {
      const pod = allocation?.pods[0];
      if (pod === undefined || allocationAt(before, network, address) !== null) continue;
      const vm = vmOf(pod);
      const { address: had } = promisedTo(before, vm, network);
      const hasIt = had !== null && isOwnedBy(before, claimOf(before, vm).uid, network, had);
      const { add, asks } = podAt(before, pod);
      const wasOwn = add.next === "hold" && add.own.includes(address);
      if (hasIt && !wasOwn && asks !== address)
        return violates(
          "another-address",
          `VM ${vm} was answered ${had} on network ${network}, stayed there, and ${address} is reserved for it`,
        );
    }
  return null;
}

/** What each VM is to get again, after a step. */
export function withPromises(before: State, after: State, rules: Rules): State {
  const { allocations, claims, vms, pods } = after;
  const isSame = before.pods === pods && before.allocations === allocations && before.vms === vms;
  if (isSame && before.claims === claims) return after;
  const promised = after.promised.map((byNetwork, vm) => {
    const now = byNetwork.map((one, network) => promiseOf(before, after, rules, { one, vm, network }));
    return now.every((one, network) => one === byNetwork[network]) ? byNetwork : now;
  });
  return promised.every((one, vm) => one === after.promised[vm]) ? after : { ...after, promised };
}

interface Place {
  readonly one: Promised;
  readonly vm: number;
  readonly network: number;
}

function promiseOf(before: State, after: State, { world }: Rules, { one, vm, network }: Place): Promised {
  if (hasGone(after, vm, network)) return NOTHING_PROMISED;
  const { uid } = claimOf(after, vm);
  const own = ownedBy(after, uid, network);
  let { address, former, isAny } = afterAnswer(before, after, { one, vm, network });
  // R1 of README.md.
  const hasStranger = (after.left.strange ?? 0) < (world.may.strange ?? 0);
  if (own.length > 1 && vm === 0 && hasStranger) isAny = true;
  if (former !== null && !own.includes(former)) former = null;
  const isSame = address === one.address && former === one.former && isAny === one.isAny;
  return isSame ? one : { address, former, isAny };
}

function afterAnswer(before: State, after: State, { one, vm, network }: Place): Promised {
  const { uid, ips } = claimOf(after, vm);
  let promised = one;
  for (const pod of [2 * vm, 2 * vm + 1]) {
    const { phase, address, asks, network: on } = podAt(after, pod);
    if (on !== network || phase !== "up" || address === null || podAt(before, pod).phase !== "pending") continue;
    const isAny = promised.isAny && ownedBy(after, uid, network).length !== 1;
    const hasMoved = asks === address && ips[0] !== address;
    const listed = hasMoved ? ips.find((ip) => isOwnedBy(after, uid, network, ip)) : undefined;
    promised = address === promised.address ? { ...promised, isAny } : { address, former: listed ?? null, isAny };
  }
  return promised;
}

/** Nothing of the VM runs here, and it has an address where it is to be, or runs with another plugin. */
function hasGone(state: State, vm: number, network: number): boolean {
  const { network: wanted } = vmAt(state, vm);
  if (wanted === network) return false;
  const pods = podsOf(state, vm);
  if (pods.some((pod) => isGuest(pod) && pod.network === network)) return false;
  if (wanted === NOWHERE) return pods.some(({ phase, network: on }) => phase === "up" && on === NOWHERE);
  return OURS.some((one) => one === wanted) && ownedBy(state, claimOf(state, vm).uid, wanted).length > 0;
}
