/** One address in its cool-down. Immutable but for its place in the queue. */
export interface CoolingAddress {
  readonly value: bigint;
  readonly coolingUntilMs: number;
  /** Order of release among equal ends of cool-down. */
  readonly sequence: number;
}

/** Dead entries up to this number are not worth removing. */
const DEAD_ENTRIES_MIN = 64;

/**
 * Cooling addresses in the order in which their cool-down ends. They nearly always arrive in that order, so the queue
 * is an array whose past is cut off at the front; an address removed from the middle leaves a dead entry until half of
 * the array is dead.
 */
export class CoolingQueue {
  readonly #byValue = new Map<bigint, CoolingAddress>();
  #entries: CoolingAddress[] = [];
  #head = 0;
  #sequence = 0;

  get size(): number {
    return this.#byValue.size;
  }

  /** Number of entries, dead ones included: the memory in use. */
  get entryCount(): number {
    return this.#entries.length;
  }

  get(value: bigint): CoolingAddress | null {
    return this.#byValue.get(value) ?? null;
  }

  add(value: bigint, coolingUntilMs: number): CoolingAddress {
    const cooling = { value, coolingUntilMs, sequence: this.#sequence++ };
    this.restore(cooling);
    return cooling;
  }

  /** Puts back what `delete` removed, at its former place. */
  restore(cooling: CoolingAddress): void {
    this.#byValue.set(cooling.value, cooling);
    const entries = this.#entries;
    const newest = entries[entries.length - 1];
    if (newest === undefined || comesBefore(newest, cooling)) {
      entries.push(cooling);
      return;
    }
    const place = this.#firstNotBefore(cooling);
    // The entry itself may still be there, marked dead by `delete`.
    if (entries[place] !== cooling) entries.splice(place, 0, cooling);
  }

  delete(cooling: CoolingAddress): void {
    this.#byValue.delete(cooling.value);
    this.#clearDead();
  }

  /** The address whose cool-down ends first; null: none is cooling. */
  peek(): CoolingAddress | null {
    for (; this.#head < this.#entries.length; this.#head++) {
      const cooling = this.#entries[this.#head] as CoolingAddress;
      if (this.#isAlive(cooling)) return cooling;
    }
    return null;
  }

  /** In order of the end of cool-down. Entries added or removed meanwhile may be seen or not, but none twice. */
  *[Symbol.iterator](): Generator<CoolingAddress> {
    let previous: CoolingAddress | null = null;
    for (;;) {
      const next = this.#firstAfter(previous);
      if (next === null) return;
      yield next;
      previous = next;
    }
  }

  #isAlive(cooling: CoolingAddress): boolean {
    return this.#byValue.get(cooling.value) === cooling;
  }

  #firstAfter(previous: CoolingAddress | null): CoolingAddress | null {
    if (previous === null) return this.peek();
    for (let i = this.#firstNotBefore(previous); i < this.#entries.length; i++) {
      const cooling = this.#entries[i] as CoolingAddress;
      if (cooling !== previous && this.#isAlive(cooling)) return cooling;
    }
    return null;
  }

  /** Index of the first entry from the head on that does not come before the given one. */
  #firstNotBefore(cooling: CoolingAddress): number {
    let low = this.#head;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (comesBefore(this.#entries[middle] as CoolingAddress, cooling)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #clearDead(): void {
    const dead = this.#entries.length - this.#byValue.size;
    if (dead < DEAD_ENTRIES_MIN || dead < this.#byValue.size) return;
    this.#entries = this.#entries.slice(this.#head).filter((cooling) => this.#isAlive(cooling));
    this.#head = 0;
  }
}

function comesBefore(a: CoolingAddress, b: CoolingAddress): boolean {
  return a.coolingUntilMs < b.coolingUntilMs || (a.coolingUntilMs === b.coolingUntilMs && a.sequence < b.sequence);
}
