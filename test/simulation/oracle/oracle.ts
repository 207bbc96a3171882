/*
 * test/simulation/oracle/: what must be true, by nobody's code but its own
 *
 *   oracle                    what the world tells it, and what it looks at after every step
 *   uniqueness, possession    no address in two hands; every address in use is recorded for its user
 *   interfaces, machine-uses  which containers and machines live, and with what they were answered
 *   allocations, claims, pods what the API says, followed write by write
 *   excuses                   who was allowed to take an address away
 *   address, view, violation  how addresses are read, etcd is seen, and findings are called
 */

import type { Interface, MachineAddress, Oracle } from "../world.ts";
import { Allocations, readPlace } from "./allocations.ts";
import { Claims } from "./claims.ts";
import { Excuses } from "./excuses.ts";
import { describeInterface, Interfaces } from "./interfaces.ts";
import { MachineUses } from "./machine-uses.ts";
import { Pods } from "./pods.ts";
import { Possession, type PossessionParts, sayHeld } from "./possession.ts";
import { checkUnique } from "./uniqueness.ts";
import { ALLOCATIONS, CLAIMS, NODES, type PlainChange, type PlainStore, PODS, VMIS } from "./view.ts";
import { Violation } from "./violation.ts";

export interface OracleParts {
  readonly etcd: PlainStore;
  /** Of the world, ms. */
  nowMs(): number;
}

/** Looks at everything that has changed since the last step, and at all there is when the world is at rest. */
export function makeOracle(parts: OracleParts): Oracle {
  return new Eye(parts);
}

class Eye implements Oracle {
  readonly #parts: OracleParts;
  readonly #interfaces = new Interfaces();
  readonly #machines = new MachineUses();
  readonly #excuses = new Excuses();
  readonly #allocations: Allocations;
  readonly #claims: Claims;
  readonly #pods: Pods;
  readonly #knowledge: PossessionParts;
  readonly #possession: Possession;
  /** What has to be looked at after this step. */
  readonly #changed = new Set<string>();
  #found: Violation | null = null;
  #restores: number;

  constructor(parts: OracleParts) {
    this.#parts = parts;
    const { etcd } = parts;
    const nowMs = () => parts.nowMs();
    this.#allocations = new Allocations(etcd, nowMs);
    this.#claims = new Claims(etcd);
    this.#pods = new Pods(etcd, nowMs);
    this.#knowledge = {
      allocations: this.#allocations,
      claims: this.#claims,
      interfaces: this.#interfaces,
      machines: this.#machines,
      pods: this.#pods,
      excuses: this.#excuses,
    };
    this.#possession = new Possession(this.#knowledge);
    this.#restores = etcd.restores;
    etcd.listen((change) => this.#note(change));
  }

  up(one: Interface, ips: readonly string[]): void {
    const known = this.#interfaces.get(one);
    if (known !== null) {
      if (known.ips.join() === ips.join()) return;
      this.#find(
        new Violation(
          "changed-answer",
          `${describeInterface(one)} was answered ${ips.join(", ")} to a repeated ADD on network ${one.network}, and ${known.ips.join(", ")} before`,
        ),
      );
      return;
    }
    const living = this.#interfaces.add(one, ips, this.#parts.nowMs());
    for (const place of living.places) this.#changed.add(place);
    this.#checkStranger(one, living.places);
  }

  down(one: Interface): void {
    this.#interfaces.remove(one);
  }

  machineUp(one: MachineAddress, address: string): void {
    const use = this.#machines.add(one, address, this.#parts.nowMs());
    if (use !== null) this.#changed.add(use.place);
  }

  machineDown(one: MachineAddress): void {
    this.#machines.remove(one);
  }

  refused(): void {}

  lossTold(network: string, address: string): void {
    const place = readPlace(network, address);
    if (place === null) return;
    const held = this.#allocations.at(place);
    for (const user of this.#interfaces.at(place))
      if (!(held?.isBound && held.owner.uid === (user.owner?.uid ?? user.one.pod.uid)))
        user.forfeited.add(place);
  }

  excused(network: string, address: string | null, why: string): void {
    this.#excuses.add(network, address === null ? null : readPlace(network, address), why);
  }

  identified(one: Interface, uid: string | null): void {
    if (uid === null || uid === one.pod.uid || this.#pods.machineUidsOf(one.pod.uid).includes(uid)) return;
    this.#find(
      new Violation("wrong-identity", `${describeInterface(one)} asked who it is, and was told UID ${uid}`),
    );
  }

  afterStep(): void {
    if (this.#parts.etcd.restores !== this.#restores) this.#noteRestore();
    if (this.#changed.size > 0) {
      for (const place of this.#changed) {
        checkUnique(place, this.#knowledge);
        this.#possession.check(place);
      }
      this.#changed.clear();
    }
    if (this.#found !== null) throw this.#found;
  }

  async atRest(): Promise<void> {
    this.afterStep();
    for (const place of this.#possession.takeOpen()) {
      const who = this.#possession.whoLacks(place);
      if (who !== null) throw new Violation("untold-loss", `${who}, and nobody was told`);
    }
    this.#excuses.clear();
    this.#pods.forgetNodes();
  }

  #note(change: PlainChange): void {
    switch (change.storage) {
      case ALLOCATIONS: {
        const place = this.#allocations.note(change);
        if (place !== null) this.#changed.add(place);
        return;
      }
      case CLAIMS:
        this.#noteClaim(change);
        return;
      case PODS:
        if (!change.deleted) this.#pods.notePod(change.object);
        return;
      case VMIS:
        this.#pods.noteVmi(change.object);
        return;
      case NODES:
        this.#pods.noteNode(change);
        return;
    }
  }

  #noteClaim(change: PlainChange): void {
    const { before, after } = this.#claims.note(change);
    if (after === null) return;
    for (const place of after.places) this.#changed.add(place);
    if (before === null || before.uid !== after.uid || before.ips.length === 0) return;
    if (before.ips.join() === after.ips.join()) return;
    if (before.places.every((place) => this.#excuses.whyOf(before.network, place) !== null)) return;
    this.#find(
      new Violation(
        "changed-claim",
        `claim ${after.key} listed ${before.ips.join(", ")} of network ${after.network}, and lists ${after.ips.join(", ") || "nothing"} now`,
      ),
    );
  }

  /** A claim of a virtual machine serves that one only. */
  #checkStranger(one: Interface, places: readonly string[]): void {
    for (const place of places) {
      const held = this.#allocations.at(place);
      if (!held?.isBound || held.owner.kind !== "IPAMClaim") continue;
      const claim = this.#claims.get(`${held.owner.namespace}/${held.owner.name}`);
      if (claim === null || claim.uid !== held.owner.uid) continue;
      const owners: { kind: string; uid: string }[] = claim.object.metadata.ownerReferences ?? [];
      const machines = owners.filter(({ kind }) => kind.startsWith("VirtualMachine"));
      const own = this.#pods.machineUidsOf(one.pod.uid);
      if (machines.length === 0 || machines.some(({ uid }) => own.includes(uid))) continue;
      this.#find(
        new Violation(
          "stranger-answered",
          `${describeInterface(one)} was answered ${one.network}'s address of claim ${claim.key}, which is another virtual machine's; ${sayHeld(held)}`,
        ),
      );
    }
  }

  /** What the restore has taken away or brought back is excused, and nothing else. */
  #noteRestore(): void {
    this.#restores = this.#parts.etcd.restores;
    this.#pods.readAgain();
    for (const place of [...this.#allocations.readAgain(), ...this.#claims.readAgain()]) {
      const network = place.slice(0, place.lastIndexOf(" ", place.lastIndexOf(" ") - 1));
      this.#excuses.add(network, place, "etcd was restored");
      this.#changed.add(place);
    }
  }

  /** Told after the step: whoever told it must not be the one who fails. */
  #find(violation: Violation): void {
    this.#found ??= violation;
  }
}
