import { type Allocations, attachmentsOf, describeOwner, type Held } from "./allocations.ts";
import type { Claims } from "./claims/claims.ts";
import type { InterfaceKey, Interfaces } from "./interfaces.ts";
import type { Pods } from "./pods.ts";
import { NADS, type PlainObject, type PlainStore } from "./view.ts";
import { violation } from "./violation.ts";

/** Clocks are compared by whole seconds, and go at different rates. */
const SLACK_MS = 2_000;
/** A pod that ended so long ago, ms, is not taken for a living one by a look from before its end. */
const ENDED_MS_MIN = 40_000;
/**
 * How long a node may take to give back what a DEL has ended, ms: a write that was given up may be carried out later,
 * and two minutes after that somebody looks again.
 */
const GIVEN_BACK_MS_MAX = 150_000;

interface Released {
  readonly held: Held;
  /** Of the write; what it says itself may be earlier, because it was under way for long. */
  readonly atMs: number;
  /** As it says itself, by the server's clock. */
  readonly sinceMs: number;
  /** Its last holder certainly runs no more: whoever asks for it by name in its namespace gets it at once. */
  readonly mayReturn: boolean;
}

interface RestsParts {
  readonly etcd: PlainStore;
  readonly allocations: Allocations;
  readonly interfaces: Interfaces;
  readonly pods: Pods;
  readonly claims: Claims;
}

/** Addresses that were given back: they rest before another owner has them, where there are others. */
export class Rests {
  readonly #etcd: PlainStore;
  readonly #allocations: Allocations;
  readonly #interfaces: Interfaces;
  readonly #pods: Pods;
  readonly #claims: Claims;
  readonly #released = new Map<string, Released>();
  readonly #cooldownMs = new Map<string, number>();
  readonly #heldCount = new Map<string, number>();

  constructor({ etcd, allocations, interfaces, pods, claims }: RestsParts) {
    this.#claims = claims;
    this.#etcd = etcd;
    this.#allocations = allocations;
    this.#interfaces = interfaces;
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
  note(before: Held | null, after: Held | null, nowMs: number, wallMs: number): void {
    if (before === null && after !== null) this.#count(after.network, 1);
    if (before !== null && after === null) this.#count(before.network, -1);
    const place = (after ?? before)?.place;
    if (place === undefined) return;
    if (after?.isCooling && before?.isBound) {
      const sinceMs = nowMs - Math.max(0, wallMs - Date.parse(after.object.status?.since));
      this.#released.set(place, {
        held: before,
        atMs: nowMs,
        sinceMs: Number.isNaN(sinceMs) ? nowMs : sinceMs,
        mayReturn: after.object.status?.holderEnded === true,
      });
    }
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

  #checkSoon({ held, atMs, sinceMs, mayReturn }: Released, after: Held, nowMs: number): void {
    const { network, owner } = after;
    if (mayReturn && held.owner.namespace === owner.namespace && this.#asksFor(after)) return;
    // A wish is free while it cools down.
    if (this.#claims.listing(after.place).some(({ uid }) => uid === owner.uid)) return;
    // A machine's address passes on to the next object of its name; import and adoption take what is in use.
    if (owner.kind !== "Pod" && owner.kind !== "IPAMClaim") return;
    if (Object.keys(after.object.status?.attachments ?? {}).length === 0) return;
    // After a restore its node puts back what it has been using all the time.
    const users = this.#interfaces.at(after.place);
    if (users.some((user) => user.owner?.uid === owner.uid && user.upAtMs < atMs)) return;
    const restedMs = nowMs - atMs;
    if (nowMs - sinceMs >= this.#cooldownOf(network) - SLACK_MS || !this.#isRoomy(network)) return;
    throw violation(
      "given-too-soon",
      `${after.address} of network ${network} was given to ${describeOwner(owner)} ${restedMs.toFixed(0)} ms after ${describeOwner(held.owner)} had given it back`,
    );
  }

  /** Its pod names the address. */
  #asksFor({ address, object }: Held): boolean {
    const pods = Object.values<PlainObject>(object.status?.attachments ?? {}).map(({ pod }) => pod);
    return pods.some((pod) => {
      const annotations = pod === undefined ? {} : (this.#pods.find(pod)?.metadata.annotations ?? {});
      return JSON.stringify(annotations).includes(address.split("/")[0] ?? address);
    });
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

/** Interfaces whose DEL the runtime has sent: their nodes give back the addresses, and need no controller for it. */
export class Ended {
  readonly #atMs = new Map<string, number>();
  /** When a node lost what it had heard last. */
  readonly #lostMs = new Map<string, number>();

  note(one: InterfaceKey, nowMs: number): void {
    this.#atMs.set(keyOf(one), nowMs);
  }

  /** An ADD of it has been answered: its container ID is used again. */
  forget(one: InterfaceKey): void {
    this.#atMs.delete(keyOf(one));
  }

  /**
   * Its journal is lost, or its Node was deleted: after its next restart it may not know which containers are of an
   * earlier boot.
   */
  noteLost(node: string, nowMs: number): void {
    this.#lostMs.set(node, nowMs);
  }

  /** What no object names any more. */
  clear(allocations: Allocations): void {
    const named = new Set<string>();
    for (const held of allocations.all()) for (const key of keysOf(held)) named.add(key);
    for (const key of this.#atMs.keys()) if (!named.has(key)) this.#atMs.delete(key);
  }

  /** While no controller runs and nothing goes wrong. */
  check(allocations: Allocations, pods: Pods, nowMs: number): void {
    for (const held of allocations.all()) {
      if (!held.isBound || held.owner.kind !== "Pod") continue;
      const isThere = pods.find(held.owner) !== null && pods.endedForMs(held.owner.uid) < 0;
      if (
        isThere ||
        this.#isForgotten(held) ||
        nowMs - Math.max(held.sinceMs, this.#allEndedMs(held)) < GIVEN_BACK_MS_MAX
      )
        continue;
      throw violation(
        "held-without-reason",
        `${held.address} of network ${held.network} is held for ${describeOwner(held.owner)} (UID ${held.owner.uid}), the DELs of all its containers were answered by ${(this.#allEndedMs(held) / 1_000).toFixed(3)} s, and no node has given it back (IPAllocation ${held.name})`,
      );
    }
  }

  /**
   * Only the DEL tells that a static pod without its object has ended, and its node has lost it (docs/known-limits.md).
   */
  #isForgotten(held: Held): boolean {
    if (held.owner.uid.includes("-")) return false;
    return attachmentsOf(held).some(({ node }, index) => {
      const deletedMs = this.#atMs.get(keysOf(held)[index] ?? "") ?? 0;
      return (this.#lostMs.get(node) ?? Number.NEGATIVE_INFINITY) >= deletedMs;
    });
  }

  /** When the last of its containers was ended; Infinity: one of them was not. */
  #allEndedMs(held: Held): number {
    const keys = keysOf(held);
    const times = keys.map((key) => this.#atMs.get(key) ?? Number.POSITIVE_INFINITY);
    return times.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...times);
  }
}

function keysOf(held: Held): string[] {
  const { network } = held;
  return attachmentsOf(held).map((one) => keyOf({ ...one, network }));
}

const keyOf = ({ node, containerId, ifname, network }: InterfaceKey): string =>
  `${node} ${containerId} ${ifname} ${network}`;
