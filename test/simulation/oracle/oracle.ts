/*
 * test/simulation/oracle/: what must be true, by nobody's code but its own
 *
 *   oracle                    what the world tells it, and what it looks at after every step
 *   uniqueness, possession    no address in two hands; every address in use is recorded for its user
 *   interfaces, machine-uses  which containers and machines live, and with what they were answered
 *   rests, restored           what was given back rests; what a restore took away is given to nobody
 *                             else
 *   retained                  what a deleted claim had is kept for a claim of its name
 *   asked                     a VM that asked and was answered has what it asked for
 *   allocations, claims, pods what the API says, followed write by write
 *   at-rest                   what is looked at when the world was left in peace
 *   liveness, reasons         at rest: everybody is ready and served; nothing is held for nobody
 *   claims-at-rest            at rest: claims name their pods; no pod holds a network for itself
 *   network-counts            at rest: what networks say of themselves
 *   reads                     what a node may ask for, whatever the cluster holds
 *   excuses                   who was allowed to take an address away
 *   address, view             how addresses and etcd are read
 *   violation, oracle-parts   what can be found, and what is asked
 */

import type { Violation } from "../engine/violation.ts";
import type { Interface, MachineAddress, Oracle, World } from "../world.ts";
import { Allocations, readPlace } from "./allocations.ts";
import { Asked } from "./asked.ts";
import { checkAtRest } from "./at-rest.ts";
import { Claims } from "./claims.ts";
import { hasLeft } from "./claims-at-rest.ts";
import { Excuses } from "./excuses.ts";
import { describeInterface, Interfaces } from "./interfaces.ts";
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
  readonly #counts = new NetworkCounts();
  readonly #restored = new Restored();
  readonly #ended = new Ended();
  readonly #possession: Possession;
  readonly #refusals = new Refusals();
  #renewedMs = Number.NEGATIVE_INFINITY;
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
      isProtected: (older, younger, place) => this.#restored.protects(older, younger, place, parts.machines()),
    };
    this.#rests = new Rests({
      etcd,
      allocations: this.#allocations,
      interfaces: this.#interfaces,
      pods: this.#pods,
    });
    this.#retained = new Retained(this.#knowledge);
    this.#asked = new Asked({ etcd, ...this.#knowledge });
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
    switch (change.storage) {
      case ALLOCATIONS: {
        const place = this.#allocations.note(change);
        if (place === null) return;
        this.#changed.add(place);
        this.#asked.note(this.#allocations.before, this.#allocations.at(place), this.#parts.nowMs());
        this.#retained.note(
          this.#allocations.before,
          this.#allocations.at(place),
          this.#parts.nowMs(),
          this.#parts.wallMs(),
        );
        this.#try(() =>
          this.#rests.note(
            this.#allocations.before,
            this.#allocations.at(place),
            this.#parts.nowMs(),
            this.#parts.wallMs(),
          ),
        );
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
    const { before, after } = this.#claims.note(change);
    if (after === null) return;
    for (const place of after.places) this.#changed.add(place);
    const isPublished = after.ips.length > 0 && (before?.uid !== after.uid || before.ips.length === 0);
    if (isPublished) this.#retained.noteClaim(after, this.#parts.nowMs());
    if (before === null || before.uid !== after.uid || before.ips.length === 0) return;
    if (before.ips.join() === after.ips.join()) return;
    // It follows its VM; what it had there is judged by who uses it.
    if (before.network !== after.network || this.#asked.explains(before, after)) return;
    // Nobody uses what it listed, and nobody will: its VM is on a network where no claim follows it.
    if (after.ips.length === 0 && hasLeft(after, this.#parts.etcd)) return;
    if (before.places.every((place) => this.#excuses.whyOf(before.network, place) !== null)) return;
    this.#find(
      violation(
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
    for (const place of [...this.#allocations.readAgain(), ...this.#claims.readAgain()]) {
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
