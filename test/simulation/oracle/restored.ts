import type { Allocations, Held } from "./allocations.ts";
import type { Claims } from "./claims/claims.ts";
import type { Living } from "./interfaces.ts";
import type { CheckedMachine } from "./oracle-parts.ts";

/** The daemons that were there when etcd was restored, and can tell everybody what they miss. */
export class Restored {
  readonly #attentive = new Map<string, unknown>();
  /** Addresses that were in use, and that nobody has in what was restored. */
  readonly #places = new Set<string>();
  #atMs = Number.NEGATIVE_INFINITY;

  note(machines: readonly CheckedMachine[], nowMs: number): void {
    this.#atMs = nowMs;
    this.#attentive.clear();
    this.#places.clear();
    for (const { name, isUp, isSuspended, daemon } of machines)
      if (isUp && !isSuspended && daemon?.core.notReady() === null) this.#attentive.set(name, daemon);
  }

  /** What was held before, and what is held now. */
  noteChange(before: Held | null, after: Allocations, claims: Claims): void {
    if (!before?.isBound) return;
    const now = after.at(before.place);
    const others = claims.listing(before.place).filter(({ uid }) => uid !== before.owner.uid);
    if ((now === null || now.isCooling) && others.length === 0) this.#places.add(before.place);
  }

  clear(): void {
    this.#places.clear();
    this.#attentive.clear();
  }

  /** Whether the address of one must not be given to the other: both nodes have heard of everything, all the time. */
  protects(older: Living, younger: Living, place: string, machines: readonly CheckedMachine[]): boolean {
    if (!this.#places.has(place) || older.upAtMs >= this.#atMs || younger.upAtMs < this.#atMs) return false;
    return [older, younger].every(({ one }) => {
      const machine = machines.find(({ name }) => name === one.node);
      const known = this.#attentive.get(one.node);
      return known !== undefined && machine?.daemon === known && !machine.isSuspended;
    });
  }
}
