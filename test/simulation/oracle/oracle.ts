/*
 * test/simulation/oracle/: what must be true, by nobody's code but its own
 *
 *   oracle                    what the world tells it, and what it looks at after every step
 *   uniqueness, possession    no address in two hands; every address in use is recorded for its user
 *   interfaces, machine-uses  which containers and machines live, and with what they were answered
 *   rests, restored           what was given back rests; what a restore took away is given to nobody
 *                             else
 *   retained                  what a deleted claim had is kept for a claim of its name
 *   claims/                   what claims have, and what is said of it
 *   allocations, pods         what the API says, followed write by write
 *   at-rest                   what is looked at when the world was left in peace
 *   liveness, reasons         at rest: everybody is ready and served; nothing is held for nobody
 *   network-counts            at rest: what networks say of themselves
 *   reads                     what a node may ask for, whatever the cluster holds
 *   excuses                   who was allowed to take an address away
 *   address, view             how addresses and etcd are read
 *   violation, oracle-parts   what can be found, and what is asked
 */

import type { Violation } from "../engine/violation.ts";
import type { ClaimWrite, Interface, MachineAddress, Oracle, World } from "../world.ts";
import { Allocations, readPlace } from "./allocations.ts";
import { checkAtRest } from "./at-rest.ts";
import { Answers } from "./claims/answers.ts";
import { Asked } from "./claims/asked.ts";
import { Claims } from "./claims/claims.ts";
import { checkReservation } from "./claims/reservations.ts";
import { Wants } from "./claims/wants.ts";
import { ClaimWrites } from "./claims/writes.ts";
import { Excuses } from "./excuses.ts";
import { describeInterface, Interfaces, type Living } from "./interfaces.ts";
import { Refusals } from "./liveness.ts";
import { MachineUses } from "./machine-uses.ts";
import { NetworkCounts } from "./network-counts.ts";
import type { OracleParts } from "./oracle-parts.ts";
import { Pods } from "./pods.ts";
import { Possession, type PossessionParts, sayHeld } from "./possession.ts";
import { Restored } from "./restored.ts";
import { Ended, Rests } from "./rests.ts";
import { Retained } from "./retained.ts";
import { checkUnique, type UniquenessParts } from "./uniqueness.ts";
import { ALLOCATIONS, CLAIMS, LEASES, NADS, NODES, type PlainChange, PODS, VMIS } from "./view.ts";
import { violation } from "./violation.ts";

/** Longer than the cool-downs, graces and intervals of what is simulated, together, ms. */
const REST_MS_MAX = 120_000;
/** So long ago a pod has ended, ms, when everybody must know that what it had is somebody else's. */
const ENDED_MS_MIN = 15_000;

export function oracleOf(world: World): Oracle {
  return makeOracle({
    etcd: world.cluster.etcd,
    nowMs: () => world.time.nowMs,
    wallMs: () => world.clock.wallMs(),
    machines: () => world.machines,
    controllers: () => world.controllers,
    restMsMax: REST_MS_MAX,
    pause: (ms) =>
      new Promise((resolve) => {
        world.clock.timer(ms, resolve);
      }),
  });
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
  readonly #knowledge: PossessionParts & UniquenessParts;
  readonly #rests: Rests;
  readonly #retained: Retained;
  readonly #asked: Asked;
  readonly #wants: Wants;
  readonly #answers: Answers;
  readonly #claimWrites: ClaimWrites;
  readonly #counts = new NetworkCounts();
  readonly #restored = new Restored();
  readonly #ended = new Ended();
  readonly #possession: Possession;
  readonly #refusals = new Refusals();
  #renewedMs = Number.NEGATIVE_INFINITY;
  /** What has to be looked at after this step. */
  readonly #changed = new Set<string>();
  /** UIDs of claims that were used. */
  readonly #answeredOnce = new Set<string>();
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
      isProtected: (older, younger, place) => this.#restored.protects(older, younger, place, parts.machines()),
    };
    this.#rests = new Rests({
      etcd,
      allocations: this.#allocations,
      interfaces: this.#interfaces,
      pods: this.#pods,
      claims: this.#claims,
    });
    this.#retained = new Retained(this.#knowledge);
    this.#asked = new Asked(this.#knowledge);
    this.#wants = new Wants(etcd, nowMs);
    this.#answers = new Answers({ etcd, ...this.#knowledge, wants: this.#wants });
    this.#claimWrites = new ClaimWrites(this.#allocations);
    this.#possession = new Possession(this.#knowledge);
    this.#restores = etcd.restores;
    etcd.listen((change) => this.#note(change));
  }

  up(one: Interface, ips: readonly string[]): void {
    this.#refusals.forget(one);
    this.#ended.forget(one);
    const known = this.#interfaces.get(one);
    if (known !== null) {
      if (known.ips.join() === ips.join()) return;
      this.#find(
        violation(
          "changed-answer",
          `${describeInterface(one)} was answered ${ips.join(", ")} to a repeated ADD on network ${one.network}, and ${known.ips.join(", ")} before`,
        ),
      );
      return;
    }
    const living = this.#interfaces.add(one, ips, this.#parts.nowMs());
    for (const place of living.places) this.#changed.add(place);
    this.#checkStranger(one, living.places);
    this.#try(() => this.#asked.check(living, this.#parts.nowMs()));
    this.#noteFirst(living);
    this.#answers.check(living, this.#parts.nowMs());
  }

  claimWritten(write: ClaimWrite): void {
    this.#answers.noteWritten(write);
    this.#try(() => this.#claimWrites.check(write));
  }

  slipped(claim: string, network: string, address: string): void {
    const place = readPlace(network, address);
    if (place !== null) this.#answers.slipped(claim, place);
  }

  down(one: Interface): void {
    this.#interfaces.remove(one);
  }

  deleted(one: Interface): void {
    this.#ended.note(one, this.#parts.nowMs());
  }

  journalLost(node: string): void {
    this.#ended.noteLost(node, this.#parts.nowMs());
  }

  machineUp(one: MachineAddress, address: string): void {
    const use = this.#machines.add(one, address, this.#parts.nowMs());
    if (use !== null) this.#changed.add(use.place);
  }

  machineDown(one: MachineAddress): void {
    this.#machines.remove(one);
  }

  refused(one: Interface, code: number, message: string): void {
    this.#refusals.note({ one, code, message, atMs: this.#parts.nowMs() });
  }

  lossTold(network: string, address: string): void {
    const place = readPlace(network, address);
    if (place === null) return;
    const held = this.#allocations.at(place);
    for (const user of this.#interfaces.at(place))
      if (!(held?.isBound && held.owner.uid === (user.owner?.uid ?? user.one.pod.uid))) user.forfeited.add(place);
  }

  excused(network: string, address: string | null, why: string): void {
    this.#excuses.add(network, address === null ? null : readPlace(network, address), why);
  }

  checked(node: string, findings: Parameters<Oracle["checked"]>[1]): void {
    for (const { one } of this.#interfaces.all()) {
      if (one.node !== node || this.#pods.endedForMs(one.pod.uid) < ENDED_MS_MIN) continue;
      const found = findings.find(({ invariant, message }) => invariant === "I2" && message.includes(one.containerId));
      if (found === undefined) continue;
      const what = `check on ${node}: ${found.message}, and ${describeInterface(one)} has ended`;
      this.#find(violation("check-finds", what));
    }
  }

  identified(one: Interface, uid: string | null): void {
    if (uid === null || uid === one.pod.uid || this.#pods.machineUidsOf(one.pod.uid).includes(uid)) return;
    this.#find(violation("wrong-identity", `${describeInterface(one)} asked who it is, and was told UID ${uid}`));
  }

  hasForfeited(one: Interface): boolean {
    return (this.#interfaces.get(one)?.forfeited.size ?? 0) > 0;
  }

  afterStep(): void {
    if (this.#parts.etcd.restores !== this.#restores) this.#noteRestore();
    if (this.#changed.size > 0) {
      for (const place of this.#changed) {
        this.#possession.note(place);
        checkUnique(place, this.#knowledge);
        this.#possession.check(place);
      }
      this.#changed.clear();
    }
    this.#try(() => this.#retained.check());
    this.#try(() => this.#answers.checkDoubts());
    const found = this.#found;
    this.#found = null;
    if (found !== null) throw found;
  }

  withoutControllers(): void {
    this.#ended.check(this.#allocations, this.#pods, this.#parts.nowMs());
  }

  async atRest(): Promise<void> {
    await checkAtRest({
      outside: this.#parts,
      knowledge: this.#knowledge,
      possession: this.#possession,
      counts: this.#counts,
      refusals: this.#refusals,
      wants: this.#wants,
      renewedMs: () => this.#renewedMs,
    });
    this.afterStep();
    this.#possession.forgetOpen();
    this.#excuses.clear();
    this.#restored.clear();
    this.#ended.clear(this.#allocations);
    this.#pods.forgetNodes();
  }

  #note(change: PlainChange): void {
    this.#wants.note(change);
    switch (change.storage) {
      case ALLOCATIONS: {
        const place = this.#allocations.note(change);
        if (place !== null) this.#noteAllocation(place);
        return;
      }
      case NADS:
        this.#rests.forgetDefinitions();
        this.#retained.noteDefinition(change.object, this.#parts.nowMs());
        if (!change.deleted) this.#counts.note(change.object);
        return;
      case CLAIMS:
        this.#noteClaim(change);
        return;
      case PODS:
        if (change.deleted) this.#pods.noteGone(change.object);
        else this.#pods.notePod(change.object);
        this.#answers.notePod(change.object);
        return;
      case VMIS:
        this.#pods.noteVmi(change.object);
        return;
      case LEASES:
        if (change.key.endsWith("/holdfast-controller")) this.#renewedMs = this.#parts.nowMs();
        return;
      case NODES:
        this.#pods.noteNode(change);
        if (change.deleted) this.journalLost(change.key);
        return;
    }
  }

  #noteClaim(change: PlainChange): void {
    this.#claims.note(change);
    const claim = this.#claims.get(change.key);
    if (claim !== null) this.#answers.noteClaim(claim, this.#parts.nowMs());
  }

  #noteAllocation(place: string): void {
    const [before, after] = [this.#allocations.before, this.#allocations.at(place)];
    const [nowMs, wallMs] = [this.#parts.nowMs(), this.#parts.wallMs()];
    this.#changed.add(place);
    this.#claimWrites.note(after);
    this.#asked.note(before, after, nowMs);
    this.#answers.note(before, after, nowMs);
    this.#retained.note(before, after, nowMs, wallMs);
    this.#try(() => this.#rests.note(before, after, nowMs, wallMs));
    this.#try(() => checkReservation(before, after, { allocations: this.#allocations, wants: this.#wants, nowMs }));
  }

  /** What is retained for a claim's name is its first user's. */
  #noteFirst(living: Living): void {
    const { owner } = this.#allocations.at(living.places[0] ?? "") ?? {};
    if (owner?.kind !== "IPAMClaim") return;
    const claim = this.#claims.get(`${owner.namespace}/${owner.name}`);
    if (claim?.uid !== owner.uid || this.#answeredOnce.has(owner.uid)) return;
    this.#answeredOnce.add(owner.uid);
    this.#retained.noteAnswer(claim, living, this.#parts.nowMs());
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
        violation(
          "stranger-answered",
          `${describeInterface(one)} was answered ${one.network}'s address of claim ${claim.key}, which is another virtual machine's; ${sayHeld(held)}`,
        ),
      );
    }
  }

  /** What the restore has taken away or brought back is excused, and nothing else. */
  #noteRestore(): void {
    this.#restores = this.#parts.etcd.restores;
    this.#restored.note(this.#parts.machines(), this.#parts.nowMs());
    this.#pods.readAgain();
    const before = new Map([...this.#allocations.all()].map((held) => [held.place, held]));
    this.#claims.readAgain();
    for (const held of this.#allocations.all()) this.#claimWrites.note(held);
    for (const place of this.#allocations.readAgain()) {
      const network = place.slice(0, place.lastIndexOf(" ", place.lastIndexOf(" ") - 1));
      this.#excuses.add(network, place, "etcd was restored");
      this.#restored.noteChange(before.get(place) ?? null, this.#allocations, this.#claims);
      this.#changed.add(place);
    }
    this.#rests.forget();
    this.#retained.readAgain(this.#parts.nowMs());
    this.#rests.forgetDefinitions();
  }

  #try(check: () => void): void {
    try {
      check();
    } catch (thrown) {
      this.#find(thrown as Violation);
    }
  }

  /** Told after the step: whoever told it must not be the one who fails. */
  #find(violation: Violation): void {
    this.#found ??= violation;
  }
}
