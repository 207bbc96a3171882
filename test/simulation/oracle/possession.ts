import { type Allocations, describeOwner, type Held, readPlace } from "./allocations.ts";
import { type Claims, LIST_MAX } from "./claims/claims.ts";
import type { Excuses } from "./excuses.ts";
import { describeInterface, type Interfaces, type Living } from "./interfaces.ts";
import { describeMachine, isHeldForMachine, type MachineUse, type MachineUses } from "./machine-uses.ts";
import { type Pods, staticUidOf } from "./pods.ts";
import { addressAt } from "./uniqueness.ts";
import { violation } from "./violation.ts";

export interface PossessionParts {
  readonly allocations: Allocations;
  readonly claims: Claims;
  readonly interfaces: Interfaces;
  readonly machines: MachineUses;
  readonly pods: Pods;
  readonly excuses: Excuses;
}

/** Every address of a living interface is Bound to its owner, or somebody is excused. */
export class Possession {
  readonly #parts: PossessionParts;
  /** Found missing while somebody was excused: to be looked at again at rest. */
  readonly #open = new Set<string>();

  constructor(parts: PossessionParts) {
    this.#parts = parts;
  }

  /** Notes whom the addresses of new interfaces are recorded for. */
  note(place: string): void {
    const { interfaces, allocations } = this.#parts;
    const held = allocations.at(place);
    for (const user of interfaces.at(place)) if (isHeldFor(user, held, this.#parts)) user.owner = held?.owner ?? null;
  }

  check(place: string): void {
    const { interfaces, machines } = this.#parts;
    for (const user of interfaces.at(place)) this.#checkUser(user, place);
    for (const machine of machines.at(place)) this.#checkMachine(machine);
  }

  /** Places that were missing something, to be judged without excuse. */
  get open(): Iterable<string> {
    return this.#open;
  }

  forgetOpen(): void {
    this.#open.clear();
  }

  /** Who still lacks the address, in words; null: nobody does. */
  whoLacks(place: string): string | null {
    const { interfaces, machines, allocations } = this.#parts;
    const held = allocations.at(place);
    for (const machine of machines.at(place)) {
      if (!isHeldForMachine(machine, held)) return sayMachine(machine, held);
    }
    for (const user of interfaces.at(place)) {
      if (!isHeldFor(user, held, this.#parts) && !this.#mayLose(user))
        return `${addressAt(user, place)} of network ${user.one.network}, in use by ${describeInterface(user.one)}, ${sayHeld(held)}`;
    }
    return null;
  }

  #checkUser(user: Living, place: string): void {
    const { allocations, excuses } = this.#parts;
    const held = allocations.at(place);
    const isNew = user.owner === null;
    if (isHeldFor(user, held, this.#parts)) {
      // What an ended pod has lost may be a claim's of its namespace by now.
      if (!this.#mayLose(user)) this.#checkPublished(user, place, held as Held);
      return;
    }
    if (this.#mayLose(user)) return;
    if (excuses.whyOf(user.one.network, place) !== null) {
      this.#open.add(place);
      return;
    }
    throw violation(
      isNew ? "answered-unheld" : "freed-in-use",
      `${addressAt(user, place)} of network ${user.one.network}, in use by ${describeInterface(user.one)}, ${sayHeld(held)}`,
    );
  }

  /** What a claim's pod was answered is in the claim's list, from before the answer. */
  #checkPublished(user: Living, place: string, { owner }: Held): void {
    const { claims, excuses } = this.#parts;
    // What was answered as its pod's may be handed over to a claim later, and is listed after that.
    if (owner.kind !== "IPAMClaim") user.isPublished = true;
    if (user.isPublished) return;
    const claim = claims.get(`${owner.namespace}/${owner.name}`);
    user.isPublished =
      claim === null ||
      claim.uid !== owner.uid ||
      // Anybody may write the list since.
      claims.hasListed(claim, addressAt(user, place));
    if (user.isPublished || excuses.whyOf(user.one.network, place) !== null) return;
    throw violation(
      "answered-unpublished",
      `${describeInterface(user.one)} was answered ${user.ips.join(", ")} of network ${user.one.network}, and claim ${owner.namespace}/${owner.name} lists ${claim?.ips.join(", ") || "nothing"}`,
    );
  }

  /** At rest: a claim that lists nothing although its container runs. */
  checkLists(): void {
    const { interfaces, claims } = this.#parts;
    for (const living of interfaces.all()) {
      const { one, owner, places, ips, forfeited } = living;
      // What an ended pod had may be gone: its VM was on another network since, and came back.
      if (owner?.kind !== "IPAMClaim" || forfeited.size > 0 || this.#mayLose(living)) continue;
      const claim = claims.get(`${owner.namespace}/${owner.name}`);
      if (claim === null || claim.uid !== owner.uid || claim.ips.length >= LIST_MAX) continue;
      const listed = claim.ips.map((ip) => readPlace(one.network, ip));
      if (places.every((place) => listed.includes(place))) continue;
      throw violation(
        "answered-unpublished",
        `${describeInterface(one)} has ${ips.join(", ")} of network ${one.network}, and claim ${claim.key} lists ${claim.ips.join(", ") || "nothing"}`,
      );
    }
  }

  #checkMachine(machine: MachineUse): void {
    const { allocations, excuses } = this.#parts;
    const held = allocations.at(machine.place);
    if (isHeldForMachine(machine, held)) return;
    if (excuses.whyOf(machine.one.network, machine.place) === null)
      throw violation("freed-in-use", sayMachine(machine, held));
    this.#open.add(machine.place);
  }

  /**
   * Whether the address of a container that is still there may be given back: nobody runs in it, or nobody can know.
   */
  #mayLose({ one }: Living): boolean {
    const { pods } = this.#parts;
    const { pod, node } = one;
    if (pods.hasEnded(pod.uid) || pods.wasNodeGone(node) || pods.isGivenUp(one)) return true;
    return pods.isUnreachable(node) && pods.find(pod) === null;
  }
}

/** Bound to the interface's pod, or to a claim of its namespace: to one alone, or its VM's that was made again. */
function isHeldFor(
  { one, owner: known }: Living,
  held: Held | null,
  { pods, claims }: Pick<PossessionParts, "pods" | "claims">,
): boolean {
  if (held === null || !held.isBound) return false;
  const { owner } = held;
  if (owner.kind === "IPAMClaim") {
    if (known?.kind !== "IPAMClaim") return owner.namespace === one.pod.namespace;
    if (owner.uid === known.uid) return true;
    const again = claims.get(`${known.namespace}/${known.name}`);
    const owners: { uid: string }[] = again?.object.metadata.ownerReferences ?? [];
    const machines = pods.machineUidsOf(one.pod.uid);
    return again?.uid === owner.uid && owners.some(({ uid }) => machines.includes(uid));
  }
  if (owner.kind !== "Pod" || owner.interface !== one.ifname) return false;
  if (owner.uid === one.pod.uid) return true;
  const pod = pods.find(one.pod);
  return pod !== null && (staticUidOf(pod) === owner.uid || pod.metadata.uid === owner.uid);
}

function sayMachine(machine: MachineUse, held: Held | null): string {
  return `${machine.address} of network ${machine.one.network}, in use by ${describeMachine(machine)}, ${sayHeld(held)}`;
}

export function sayHeld(held: Held | null): string {
  if (held === null) return "has no IPAllocation";
  if (held.isCooling) return `rests (IPAllocation ${held.name} of ${describeOwner(held.owner)} is Cooling)`;
  if (held.isRetained) return `is retained (IPAllocation ${held.name}, for the name of ${describeOwner(held.owner)})`;
  return `belongs to ${describeOwner(held.owner)} (UID ${held.owner.uid}, IPAllocation ${held.name})`;
}
