/*
 * ipam/space/: addresses, and which of them are free
 *
 *   address, cidr              one address, a subnet, an address in it: read and written
 *   interval-set, range-set    the addresses of a network that can be given
 *   pool, run-index, cooling-queue   which of them are free or cooling, and the order in which they are tried
 *   free-space                 the free addresses of a pool, for people
 *   cooldown                   how long a released address cools down
 */

import { hash } from "node:crypto";
import { cidrContains, cidrFirst, cidrLast } from "./cidr.ts";
import { type CoolingAddress, CoolingQueue } from "./cooling-queue.ts";
import { type Interval, IntervalSet } from "./interval-set.ts";
import type { RangeSet, SubnetDefinition } from "./range-set.ts";
import { RunIndex } from "./run-index.ts";

/**
 * Reverts one change of a pool exactly, its cursor included. Changes are reverted in the opposite order; cool-downs
 * that ended in between stay ended.
 */
export type Undo = () => void;

export type AddressState = "free" | "allocated" | "retained" | "cooling" | "excluded" | "outside";

/** How the addresses of a range set are used: `free + allocated + retained + cooling + excluded = size`, always. */
export interface PoolCounts {
  readonly size: bigint;
  readonly allocated: bigint;
  /** Reserved for a claim of the name that had them. */
  readonly retained: bigint;
  readonly cooling: bigint;
  /** Can be allocated automatically. */
  readonly free: bigint;
  /** Never allocated, or reserved and not allocated now. */
  readonly excluded: bigint;
  /** Allocated, but no longer in the range since it was edited; not part of the size. */
  readonly outside: bigint;
}

const NOTHING: Undo = () => {};

/**
 * The free space of one range set, in memory. It follows the store and decides nothing by itself. An address that is
 * allocated automatically is free (`#free`), cooling, or else allocated, so such allocations cost only the gap they
 * leave. Other allocated addresses (reserved, excluded meanwhile, outside) are few and kept one by one.
 */
export class Pool {
  readonly rangeSet: RangeSet;
  readonly #free: RunIndex;
  readonly #cooling = new CoolingQueue();
  /** Cooling addresses that are allocated automatically; the others of `#cooling` are reserved or excluded. */
  #coolingAutomaticCount = 0;
  /** Allocated addresses of the set that are not allocated automatically. */
  readonly #special = new Set<bigint>();
  /** Addresses that are retained; for everything else here they are allocated. */
  readonly #retained = new Set<bigint>();
  /** Allocated addresses that are not in the set. */
  readonly #outside = new Set<bigint>();
  #cursor: bigint;

  /** The first search begins where the seed says, else at the first address. `taken`: allocated from the beginning. */
  constructor(rangeSet: RangeSet, startSeed?: string, taken = IntervalSet.EMPTY) {
    this.rangeSet = rangeSet;
    this.#free = new RunIndex(rangeSet.automatic.subtract(taken));
    for (const { cidr } of rangeSet.subnets) {
      const inSubnet = taken.intersect(IntervalSet.of(cidrFirst(cidr), cidrLast(cidr)));
      for (const { first, last } of inSubnet.subtract(rangeSet.automatic).intervals())
        for (let value = first; value <= last; value += 1n) this.#take(value);
    }
    this.#cursor = startSeed === undefined ? (rangeSet.automatic.first ?? 0n) : this.hashStart(startSeed);
  }

  /** Where the next search begins, wrapping around. */
  get cursor(): bigint {
    return this.#cursor;
  }

  /** No address can be allocated automatically, not even one that is still cooling. */
  get isExhausted(): boolean {
    return this.#free.count === 0n && this.#coolingAutomaticCount === 0;
  }

  /** The subnet of an address: the one that counts it, else one whose CIDR contains it. null outside all. */
  subnetOf(value: bigint): SubnetDefinition | null {
    const { subnets } = this.rangeSet;
    const counting = subnets.find(({ extent }) => extent.contains(value));
    if (counting !== undefined) return counting;
    return subnets.find(({ cidr }) => cidrContains(cidr, { family: cidr.family, value })) ?? null;
  }

  /**
   * Addresses to try, in order: next-fit over the free ones from `startAt` (default: the cursor) on, wrapping around;
   * after them the cooling ones, longest released first. Lazy, and reserves nothing; an address allocated before its
   * turn is skipped. A cool-down that is over at `nowMs` counts as over, whether `expire` was called or not.
   */
  *candidates(nowMs: number, startAt: bigint = this.#cursor): Generator<bigint> {
    const cooled = this.#cooled(nowMs);
    const freeFrom = (position: bigint) => this.#free.nextFrom(position);
    if (cooled === null) yield* nextFit(startAt, freeFrom);
    else {
      const freeOrCooledFrom = nextOfBoth(freeFrom, (position) => cooled.nextFrom(position));
      for (const value of nextFit(startAt, freeOrCooledFrom)) {
        if (this.stateOf(value, nowMs) === "free") yield value;
      }
    }
    for (const { value, coolingUntilMs } of this.#cooling) {
      if (coolingUntilMs > nowMs && this.rangeSet.automatic.contains(value)) yield value;
    }
  }

  /**
   * Marks an address as allocated, whatever it was: free, cooling, reserved, excluded, or outside (then it is only
   * counted). One that is retained is so no more. Does nothing when it is already allocated. The cursor moves behind an
   * automatically allocated address, unless `moveCursor` is false.
   */
  allocate(value: bigint, { moveCursor = true }: { readonly moveCursor?: boolean } = {}): Undo {
    const untake = this.#take(value);
    if (untake === null) return NOTHING;
    if (!moveCursor || !this.rangeSet.automatic.contains(value)) return untake;
    const cursor = this.#cursor;
    this.#cursor = value + 1n;
    return () => {
      this.#cursor = cursor;
      untake();
    };
  }

  /** Marks an allocated address as retained. Does nothing when it is not allocated, or outside the set. */
  retain(value: bigint): Undo {
    if (this.#outside.has(value) || this.stateOf(value) !== "allocated") return NOTHING;
    this.#retained.add(value);
    return () => this.#retained.delete(value);
  }

  /**
   * Marks an allocated or retained address as cooling, or as free when its cool-down is already over; one outside the
   * set is forgotten. Does nothing when it is not allocated.
   */
  release(value: bigint, coolingUntilMs: number, nowMs: number): Undo {
    if (this.#outside.delete(value)) return () => this.#outside.add(value);
    const special = this.#special.delete(value);
    if (!special && !this.#isAllocatedAutomatic(value)) return NOTHING;
    const retained = this.#retained.delete(value);
    const cooling = coolingUntilMs > nowMs ? this.#cooling.add(value, coolingUntilMs) : null;
    if (cooling !== null && !special) this.#coolingAutomaticCount++;
    if (cooling === null && !special) this.#free.give(value);
    return () => {
      if (cooling !== null && this.#cooling.get(value) === cooling) this.#leaveCooling(cooling);
      else if (!special) this.#free.take(value);
      if (special) this.#special.add(value);
      if (retained) this.#retained.add(value);
    };
  }

  /** Ends the cool-down of an address now. Does nothing when it is not cooling. */
  endCooldown(value: bigint): Undo {
    const cooling = this.#cooling.get(value);
    if (cooling === null) return NOTHING;
    this.#endCooldown(cooling);
    return () => {
      this.#free.take(value);
      this.#enterCooling(cooling);
    };
  }

  expire(nowMs: number): void {
    for (;;) {
      const cooling = this.#cooling.peek();
      if (cooling === null || cooling.coolingUntilMs > nowMs) return;
      this.#endCooldown(cooling);
    }
  }

  /**
   * The state of an address. "free" means that it can be allocated, possibly only on request: an unallocated reserved
   * address is free in this sense. With `nowMs`, a cool-down that is over counts as over.
   */
  stateOf(value: bigint, nowMs: number = Number.NEGATIVE_INFINITY): AddressState {
    if (this.#free.has(value)) return "free";
    if (this.#retained.has(value)) return "retained";
    const cooling = this.#cooling.get(value);
    if (cooling !== null && cooling.coolingUntilMs > nowMs) return "cooling";
    if (cooling === null && (this.#special.has(value) || this.#outside.has(value))) return "allocated";
    const { automatic, usable, extent } = this.rangeSet;
    if (cooling === null && automatic.contains(value)) return "allocated";
    if (usable.contains(value)) return "free";
    return extent.contains(value) ? "excluded" : "outside";
  }

  /** Runs of free addresses that are given automatically, ascending. Cool-downs are over once they are expired. */
  freeRuns(): Generator<Interval> {
    return this.#free.intervals();
  }

  counts(): PoolCounts {
    const { size, automatic } = this.rangeSet;
    const coolingAutomatic = BigInt(this.#coolingAutomaticCount);
    const coolingSpecial = BigInt(this.#cooling.size) - coolingAutomatic;
    const special = BigInt(this.#special.size);
    const free = this.#free.count;
    const retained = BigInt(this.#retained.size);
    return {
      size,
      allocated: automatic.size - free - coolingAutomatic + special - retained,
      retained,
      cooling: coolingAutomatic + coolingSpecial,
      free,
      excluded: size - automatic.size - special - coolingSpecial,
      outside: BigInt(this.#outside.size),
    };
  }

  /**
   * Where the search for a claim's first address begins: the SHA-256 of its seed, spread over the automatically
   * allocated addresses. Every node computes the same place, so that two nodes serving one claim try the same address.
   */
  hashStart(seed: string): bigint {
    const { automatic, extent } = this.rangeSet;
    if (automatic.size === 0n) return extent.first ?? 0n;
    return automatic.at(BigInt(`0x${hash("sha256", seed)}`) % automatic.size);
  }

  /** null when it is already allocated. */
  #take(value: bigint): Undo | null {
    if (this.#free.take(value)) return () => this.#free.give(value);
    if (this.#retained.delete(value)) return () => this.#retained.add(value);
    const automatic = this.rangeSet.automatic.contains(value);
    const cooling = this.#cooling.get(value);
    if (cooling !== null) {
      this.#leaveCooling(cooling);
      if (!automatic) this.#special.add(value);
      return () => {
        this.#special.delete(value);
        this.#enterCooling(cooling);
      };
    }
    if (automatic) return null;
    const others = this.rangeSet.extent.contains(value) ? this.#special : this.#outside;
    if (others.has(value)) return null;
    others.add(value);
    return () => others.delete(value);
  }

  #isAllocatedAutomatic(value: bigint): boolean {
    return this.rangeSet.automatic.contains(value) && !this.#free.has(value) && this.#cooling.get(value) === null;
  }

  #enterCooling(cooling: CoolingAddress): void {
    this.#cooling.restore(cooling);
    if (this.rangeSet.automatic.contains(cooling.value)) this.#coolingAutomaticCount++;
  }

  #leaveCooling(cooling: CoolingAddress): void {
    this.#cooling.delete(cooling);
    if (this.rangeSet.automatic.contains(cooling.value)) this.#coolingAutomaticCount--;
  }

  /** From cooling to free; a reserved or excluded address just becomes unallocated. */
  #endCooldown(cooling: CoolingAddress): void {
    this.#cooling.delete(cooling);
    if (!this.rangeSet.automatic.contains(cooling.value)) return;
    this.#coolingAutomaticCount--;
    this.#free.give(cooling.value);
  }

  /** Addresses whose cool-down is over but that are not freed yet; null, as nearly always, when there are none. */
  #cooled(nowMs: number): RunIndex | null {
    const first = this.#cooling.peek();
    if (first === null || first.coolingUntilMs > nowMs) return null;
    const runs: { first: bigint; last: bigint }[] = [];
    for (const { value, coolingUntilMs } of this.#cooling) {
      if (coolingUntilMs > nowMs) break;
      if (this.rangeSet.automatic.contains(value)) runs.push({ first: value, last: value });
    }
    return new RunIndex(IntervalSet.from(runs));
  }
}

/** The first number from a position on, wrapping around at the end; null: there is none. */
type NextFrom = (position: bigint) => bigint | null;

/** All that `nextFrom` finds, from `startAt` once around, none twice; what comes or goes meanwhile, perhaps. */
function* nextFit(startAt: bigint, nextFrom: NextFrom): Generator<bigint> {
  let position = startAt;
  let wrapped = false;
  for (;;) {
    const next = nextFrom(position);
    if (next === null) return;
    if (next < position) {
      if (wrapped) return;
      wrapped = true;
    }
    if (wrapped && next >= startAt) return;
    yield next;
    position = next + 1n;
  }
}

function nextOfBoth(a: NextFrom, b: NextFrom): NextFrom {
  return (position) => {
    const [nextA, nextB] = [a(position), b(position)];
    if (nextA === null || nextB === null) return nextA ?? nextB;
    // A number that is not below the position comes before one that is; otherwise the lower number comes first.
    const aIsAhead = nextA >= position;
    const bIsAhead = nextB >= position;
    const aComesFirst = aIsAhead === bIsAhead ? nextA <= nextB : aIsAhead;
    return aComesFirst ? nextA : nextB;
  };
}
