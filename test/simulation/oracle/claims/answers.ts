import type { Violation } from "../../engine/violation.ts";
import type { ClaimWrite } from "../../world.ts";
import { inOneSubnet } from "../address.ts";
import { type Allocations, type Held, readPlace } from "../allocations.ts";
import type { Excuses } from "../excuses.ts";
import { describeInterface, type Interfaces, type Living } from "../interfaces.ts";
import { claimsNamedBy, type Pods } from "../pods.ts";
import { type PlainObject, type PlainStore, PODS } from "../view.ts";
import { violation } from "../violation.ts";
import { askedBy } from "./asked.ts";
import { type Claim, type Claims, listOf } from "./claims.ts";
import type { Wants } from "./wants.ts";

interface AnswersParts {
  readonly etcd: PlainStore;
  readonly allocations: Allocations;
  readonly claims: Claims;
  readonly excuses: Excuses;
  readonly interfaces: Interfaces;
  readonly pods: Pods;
  readonly wants: Wants;
}

interface Answered {
  readonly places: readonly string[];
  readonly atMs: number;
}

interface Doubt {
  readonly network: string;
  readonly place: string;
  readonly found: Violation;
}

/**
 * What a claim's users were answered on a network, or was reserved for it beforehand, stays the claim's: its next user
 * gets it, and nobody takes it away, whatever is written into the claim. But one that its VM asks for takes its place
 * at its next start, and so may one that the claim has had beside it since before (docs/decisions/0093); and where the
 * VM is elsewhere it is released.
 */
export class Answers {
  readonly #parts: AnswersParts;
  /** By UID and network of the claim. */
  readonly #answered = new Map<string, Answered>();
  /** Claim and address, of everything that a pod has ever asked for that names the claim. */
  readonly #asked = new Set<string>();
  /** Claim and place of what the token of a node has reserved for it. */
  readonly #slipped = new Set<string>();
  /** Until when a claim's list was what somebody else than the product has written, ms; Infinity: it is. */
  readonly #foreignUntilMs = new Map<string, number>();
  /** What the product wrote last into a claim. */
  readonly #written = new Map<string, string>();
  /** What is wrong unless somebody has ordered it, of which the oracle is told after the write. */
  #doubts: Doubt[] = [];

  constructor(parts: AnswersParts) {
    this.#parts = parts;
    for (const { object } of parts.etcd.range(PODS, "")) this.notePod(object);
  }

  notePod(pod: PlainObject): void {
    const asked = Object.values(askedBy(pod)).flat();
    if (asked.length === 0) return;
    for (const claim of claimsNamedBy(pod))
      for (const ip of asked) this.#asked.add(`${pod.metadata.namespace}/${claim} ${readPlace("", ip)}`);
  }

  /** Somebody with the token of a node has reserved an address for a claim (its UID). */
  slipped(claim: string, place: string): void {
    this.#slipped.add(`${claim} ${place}`);
  }

  /** The product writes a claim. */
  noteWritten({ after }: ClaimWrite): void {
    this.#written.set(after.metadata.uid, listOf(after).join());
  }

  noteClaim({ uid, ips }: Claim, nowMs: number): void {
    if (ips.join() === this.#written.get(uid)) {
      if (this.#foreignUntilMs.get(uid) === Number.POSITIVE_INFINITY) this.#foreignUntilMs.set(uid, nowMs);
    } else if (ips.length > 0 || this.#written.has(uid)) this.#foreignUntilMs.set(uid, Number.POSITIVE_INFINITY);
  }

  /** An interface that has just been answered. */
  check({ one, places }: Living, nowMs: number): void {
    const { allocations, claims } = this.#parts;
    const own = places.flatMap((place) => allocations.at(place) ?? []).filter(isOfClaim);
    const claim = claimOf(own[0], claims);
    if (claim === null) return;
    const before = this.#answered.get(`${claim.uid} ${one.network}`);
    this.#answered.set(`${claim.uid} ${one.network}`, { places: own.map(({ place }) => place), atMs: nowMs });
    for (const place of before?.places ?? []) {
      const held = allocations.at(place);
      if (before === undefined || places.includes(place) || !isOfClaim(held) || held.owner.uid !== claim.uid) continue;
      const mayReplace = own.some((other) => this.#mayReplace(other, held, claim, before));
      if (mayReplace && !this.#runsWith(held, claim, own)) continue;
      const now = own.map(({ address }) => address).join(", ");
      const what = `${describeInterface(one)} was answered ${now} of network ${one.network}, and claim ${claim.key} still has ${held.address}`;
      this.#doubts.push({ network: one.network, place, found: violation("changed-claim", what) });
    }
  }

  /** One address of one network was written, or its object deleted. */
  note(before: Held | null, after: Held | null, nowMs: number): void {
    const { claims } = this.#parts;
    if (isOfClaim(after) && after.owner.uid !== before?.owner.uid) this.#noteReserved(after, nowMs);
    if (!isOfClaim(before) || (isOfClaim(after) && after.owner.uid === before.owner.uid)) return;
    const { network, place } = before;
    const key = `${before.owner.uid} ${network}`;
    const answered = this.#answered.get(key);
    if (!answered?.places.includes(place)) return;
    this.#answered.set(key, { ...answered, places: answered.places.filter((one) => one !== place) });
    const claim = claimOf(before, claims);
    if (claim === null || claim.object.metadata.deletionTimestamp !== undefined) return;
    if (this.#isReplaced(before, claim, answered) || this.#isElsewhere(before, claim)) return;
    const what = `${before.address} of network ${network} was taken from claim ${claim.key}, which had it alone there`;
    this.#doubts.push({ network, place, found: violation("changed-claim", what) });
  }

  /** After a step. Throws what nobody has ordered. */
  checkDoubts(): void {
    const doubts = this.#doubts;
    this.#doubts = [];
    for (const { network, place, found } of doubts) if (this.#parts.excuses.whyOf(network, place) === null) throw found;
  }

  /** By a controller, for nobody who is attached: its first user gets it. */
  #noteReserved({ network, place, owner, object }: Held, nowMs: number): void {
    const key = `${owner.uid} ${network}`;
    if (Object.keys(object.status?.attachments ?? {}).length > 0) return;
    const known = this.#answered.get(key);
    if (known === undefined || known.places.length === 0) this.#answered.set(key, { places: [place], atMs: nowMs });
  }

  #mayReplace(other: Held, held: Held, claim: Claim, { atMs }: Answered): boolean {
    if (!inOneSubnet(other.address, held.address)) return false;
    const asked = readPlace("", other.address);
    if (other.sinceMs <= atMs || this.#asked.has(`${claim.key} ${asked}`)) return true;
    // Whoever writes the list besides chooses which of the two it is (docs/decisions/0093).
    const wasForeign = (this.#foreignUntilMs.get(claim.uid) ?? Number.NEGATIVE_INFINITY) >= other.sinceMs;
    if (wasForeign && this.#slipped.has(`${claim.uid} ${other.place}`)) return true;
    return this.#parts.wants.lately(claim).some(({ asks }) => asks.some((ip) => readPlace("", ip) === asked));
  }

  /** A launcher of the VM that lives has it, and asks for nothing of what was given now. */
  #runsWith({ place }: Held, { uid }: Claim, given: readonly Held[]): boolean {
    const { interfaces, pods } = this.#parts;
    return interfaces.at(place).some(({ one, owner }) => {
      const pod = pods.find(one.pod);
      if (owner?.uid !== uid || pod === null || pods.hasEnded(one.pod.uid)) return false;
      const asked = Object.values(askedBy(pod)).flat();
      return !asked.some((ip) => given.some((other) => readPlace(other.network, ip) === other.place));
    });
  }

  #isReplaced(held: Held, claim: Claim, answered: Answered): boolean {
    return this.#parts.allocations
      .ofClaim(claim.uid)
      .some((other) => other.network === held.network && this.#mayReplace(other, held, claim, answered));
  }

  /** Its VM is to be on another network, and the claim has an address there; or where no claim follows it. */
  #isElsewhere({ network }: Held, claim: Claim): boolean {
    const had = this.#parts.allocations.ofClaim(claim.uid);
    return this.#parts.wants
      .lately(claim)
      .some(
        (wanted) =>
          wanted.network !== network &&
          (wanted.network === null ? wanted.vmi !== null : had.some((one) => one.network === wanted.network)),
      );
  }
}

function isOfClaim(held: Held | null | undefined): held is Held {
  return held?.isBound === true && held.owner.kind === "IPAMClaim";
}

/** As it is there now; null: it is another one. */
function claimOf(held: Held | undefined, claims: Claims): Claim | null {
  const claim = held === undefined ? null : claims.get(`${held.owner.namespace}/${held.owner.name}`);
  return claim?.uid === held?.owner.uid ? claim : null;
}
