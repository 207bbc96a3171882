import type { Violation } from "../engine/violation.ts";
import { type Allocations, describeOwner, type Held } from "./allocations.ts";
import type { Claim } from "./claims/claims.ts";
import type { Excuses } from "./excuses.ts";
import type { Interfaces, Living } from "./interfaces.ts";
import type { PlainObject } from "./view.ts";
import { type OracleKind, violation } from "./violation.ts";

/** Clocks are compared by whole seconds, and go at different rates. */
const SLACK_MS = 3_000;
/** A claim's ADD may have looked so long before it is answered, ms. */
const LOOKED_MS_MAX = 15_000;

interface Kept {
  readonly held: Held;
  readonly sinceMs: number;
  /** By the server's clock, ms since the epoch. */
  readonly untilMs: number;
}

interface Doubt {
  readonly network: string;
  readonly place: string;
  readonly found: Violation;
}

/**
 * What a deleted claim had is kept for a claim of its name until its time: nobody else gets it before, and a claim that
 * is made again in time gets it back.
 */
export class Retained {
  readonly #allocations: Allocations;
  readonly #interfaces: Interfaces;
  readonly #excuses: Excuses;
  readonly #kept = new Map<string, Kept>();
  /** What is wrong unless somebody has ordered it, of which the oracle is told after the write. */
  #doubts: Doubt[] = [];
  /** When a definition of a network was written last, ms; "": one that cannot be read, of whichever network. */
  readonly #editedMs = new Map<string, number>();

  constructor(parts: {
    readonly allocations: Allocations;
    readonly interfaces: Interfaces;
    readonly excuses: Excuses;
  }) {
    this.#allocations = parts.allocations;
    this.#interfaces = parts.interfaces;
    this.#excuses = parts.excuses;
  }

  noteDefinition({ spec }: PlainObject, nowMs: number): void {
    this.#editedMs.set(networkOf(spec?.config), nowMs);
  }

  /** After a restore: what is retained now is so since now. */
  readAgain(nowMs: number): void {
    this.#kept.clear();
    for (const held of this.#allocations.all()) if (held.isRetained) this.#keep(held, nowMs);
  }

  /** One address of one network was written, or its object deleted. */
  note(before: Held | null, after: Held | null, nowMs: number, wallMs: number): void {
    const place = (after ?? before)?.place;
    if (place === undefined) return;
    if (after?.isRetained === true) {
      if (before?.isRetained !== true) this.#keep(after, nowMs);
      return;
    }
    const kept = this.#kept.get(place);
    this.#kept.delete(place);
    if (kept === undefined) return;
    const what = `${kept.held.address} of network ${kept.held.network}, retained for ${describeOwner(kept.held.owner)},`;
    if (after?.isBound === true) {
      if (isOfName(after, kept.held) || this.#wasUsed(after, kept)) return;
      this.#doubt(kept, "retained-given", `${what} was given to ${describeOwner(after.owner)}`);
    } else if (
      wallMs < kept.untilMs - SLACK_MS &&
      // Whoever retained it may not have heard of an edit from just before.
      this.#wasEditedMs(kept.held.network) < kept.sinceMs - SLACK_MS
    )
      this.#doubt(kept, "retained-lost", `${what} was given back ${kept.untilMs - wallMs} ms too soon`);
  }

  /** The first user of a claim was answered. */
  noteAnswer({ key, object }: Claim, { one: { network }, places, ips }: Living, nowMs: number): void {
    if (
      (object.spec?.ipRequests ?? []).length > 0 ||
      object.metadata.annotations?.["simulation/prefilled"] !== undefined
    )
      return;
    const families = new Set(ips.map(familyOf));
    const editedMs = this.#wasEditedMs(network);
    for (const [place, kept] of this.#kept) {
      const { owner, network: of, address } = kept.held;
      if (of !== network || `${owner.namespace}/${owner.name}` !== key || places.includes(place)) continue;
      const isSettled = nowMs - kept.sinceMs > LOOKED_MS_MAX && nowMs - editedMs > LOOKED_MS_MAX;
      if (!isSettled || editedMs > kept.sinceMs || !families.has(familyOf(address))) continue;
      this.#doubt(
        kept,
        "retained-not-returned",
        `claim ${key} was made again and has ${ips.join(", ")} of network ${network}, and ${address} is retained for it`,
      );
    }
  }

  /** After a step. Throws what nobody has ordered. */
  check(): void {
    const doubts = this.#doubts;
    this.#doubts = [];
    for (const { network, place, found } of doubts) if (this.#excuses.whyOf(network, place) === null) throw found;
  }

  #wasEditedMs(network: string): number {
    const [own, any] = [this.#editedMs.get(network), this.#editedMs.get("")];
    return Math.max(own ?? Number.NEGATIVE_INFINITY, any ?? Number.NEGATIVE_INFINITY);
  }

  #keep(held: Held, sinceMs: number): void {
    const untilMs = Date.parse(held.object.status?.retainedUntil);
    this.#kept.set(held.place, { held, sinceMs, untilMs: Number.isNaN(untilMs) ? 0 : untilMs });
  }

  /** By whom a restored API server has forgotten. */
  #wasUsed({ place, owner }: Held, { sinceMs }: Kept): boolean {
    return this.#interfaces.at(place).some((user) => user.owner?.uid === owner.uid && user.upAtMs < sinceMs);
  }

  #doubt({ held: { network, place } }: Kept, kind: OracleKind, message: string): void {
    this.#doubts.push({ network, place, found: violation(kind, message) });
  }
}

function networkOf(config: unknown): string {
  try {
    return String(JSON.parse(String(config)).name ?? "");
  } catch {
    return "";
  }
}

const familyOf = (address: string): string => (address.includes(":") ? "6" : "4");

function isOfName({ owner }: Held, { owner: former }: Held): boolean {
  return owner.kind === "IPAMClaim" && owner.namespace === former.namespace && owner.name === former.name;
}
