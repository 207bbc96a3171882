import { type Allocations, describeOwner, type Held } from "./allocations.ts";
import type { Pods } from "./pods.ts";
import { NADS, type PlainObject, type PlainStore } from "./view.ts";
import { violation } from "./violation.ts";

/** Clocks are compared by whole seconds, and go at different rates. */
const SLACK = 0.5;
const SLACK_MS = 1_000;
/** A pod that ended so long ago, ms, is not taken for a living one by a look from before its end. */
const ENDED_MS_MIN = 40_000;

interface Released {
  readonly held: Held;
  readonly atMs: number;
}

/** Addresses that were given back: they rest before another owner has them, where there are others. */
export class Rests {
  readonly #etcd: PlainStore;
  readonly #allocations: Allocations;
  readonly #pods: Pods;
  readonly #released = new Map<string, Released>();
  readonly #cooldownMs = new Map<string, number>();
  readonly #heldCount = new Map<string, number>();

  constructor(etcd: PlainStore, allocations: Allocations, pods: Pods) {
    this.#etcd = etcd;
    this.#allocations = allocations;
    this.#pods = pods;
    for (const { network } of allocations.all()) this.#count(network, 1);
  }

  /** A definition was written or deleted: what is known of it is read again. */
  forgetDefinitions(): void {
    this.#cooldownMs.clear();
  }

  /** After a restore nothing is known of what was given back before. */
  forget(): void {
    this.#released.clear();
    this.#heldCount.clear();
    for (const { network } of this.#allocations.all()) this.#count(network, 1);
  }

  /** One address of one network was written, or its object deleted. */
  note(before: Held | null, after: Held | null, nowMs: number): void {
    if (before === null && after !== null) this.#count(after.network, 1);
    if (before !== null && after === null) this.#count(before.network, -1);
    const place = (after ?? before)?.place;
    if (place === undefined) return;
    if (after?.isCooling && before?.isBound) this.#released.set(place, { held: before, atMs: nowMs });
    if (!after?.isBound || before?.isBound) return;
    const released = this.#released.get(place);
    this.#released.delete(place);
    if (released === undefined) return;
    if (isSameOwner(released.held, after)) this.#checkRevived(after);
    else this.#checkSoon(released, after, nowMs);
  }

  #checkRevived(held: Held): void {
    if (held.owner.kind !== "Pod" || this.#pods.endedForMs(held.owner.uid) < ENDED_MS_MIN) return;
    throw violation(
      "revived",
      `${held.address} of network ${held.network} was given back and is held again for ${describeOwner(held.owner)}, which ended ${(this.#pods.endedForMs(held.owner.uid) / 1_000).toFixed(0)} s ago`,
    );
  }

  #checkSoon({ held, atMs }: Released, after: Held, nowMs: number): void {
    const { network, owner } = after;
    // A machine's address passes on to the next object of its name; import and adoption take what is in use.
    if (owner.kind !== "Pod" && owner.kind !== "IPAMClaim") return;
    if (Object.keys(after.object.status?.attachments ?? {}).length === 0) return;
    const restedMs = nowMs - atMs;
    if (restedMs >= this.#cooldownOf(network) * SLACK - SLACK_MS || !this.#isRoomy(network)) return;
    throw violation(
      "given-too-soon",
      `${after.address} of network ${network} was given to ${describeOwner(owner)} ${restedMs.toFixed(0)} ms after ${describeOwner(held.owner)} had given it back`,
    );
  }

  /** Of its only definition; 0: it cannot be read, or people do not agree. ms. */
  #cooldownOf(network: string): number {
    const known = this.#cooldownMs.get(network);
    if (known !== undefined) return known;
    const found = this.#etcd.range(NADS, "").flatMap(({ object }) => configOf(object, network));
    const seconds = found.map((config) => Number(config.ipam?.cooldownSeconds ?? 60));
    const asksFor = found.some((config) => Object.keys(config.ipam?.ranges ?? {}).length > 0);
    const cooldownMs = seconds.length === 0 || asksFor ? 0 : Math.min(...seconds) * 1_000;
    this.#cooldownMs.set(network, cooldownMs);
    return cooldownMs;
  }

  /** Less than a quarter of its only subnet is held or rests. */
  #isRoomy(network: string): boolean {
    const [status, ...others] = this.#etcd
      .range("ipam.holdfast.dev/ipnetworks", "")
      .flatMap(({ object }) => (object.spec?.network === network ? [object.status ?? {}] : []));
    if (others.length > 0 || status?.size === undefined || status.subnets?.includes(",")) return false;
    return BigInt(this.#heldCount.get(network) ?? 0) * 4n < BigInt(status.size);
  }

  #count(network: string, more: number): void {
    this.#heldCount.set(network, (this.#heldCount.get(network) ?? 0) + more);
  }
}

function configOf({ spec }: PlainObject, network: string): PlainObject[] {
  try {
    const config = JSON.parse(spec.config);
    return config.name === network ? [config] : [];
  } catch {
    return [];
  }
}

const isSameOwner = (a: Held, b: Held): boolean =>
  a.owner.kind === b.owner.kind && a.owner.uid === b.owner.uid && a.owner.interface === b.owner.interface;
