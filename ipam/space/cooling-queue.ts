/** One address in its cool-down. Immutable but for its place in the queue. */
export interface Resting {
  readonly value: bigint;
  readonly restUntilMs: number;
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
  readonly #byValue = new Map<bigint, Resting>();
  #entries: Resting[] = [];
  #head = 0;
  #sequence = 0;

  get size(): number {
    return this.#byValue.size;
  }

  /** Number of entries, dead ones included: the memory in use. */
  get entryCount(): number {
    return this.#entries.length;
  }

  get(value: bigint): Resting | null {
    return this.#byValue.get(value) ?? null;
  }

  add(value: bigint, restUntilMs: number): Resting {
    const resting = { value, restUntilMs, sequence: this.#sequence++ };
    this.restore(resting);
    return resting;
  }

  /** Puts back what `delete` removed, at its former place. */
  restore(resting: Resting): void {
    this.#byValue.set(resting.value, resting);
    const entries = this.#entries;
    const newest = entries[entries.length - 1];
    if (newest === undefined || comesBefore(newest, resting)) {
      entries.push(resting);
      return;
    }
    const place = this.#firstNotBefore(resting);
    // The entry itself may still be there, marked dead by `delete`.
    if (entries[place] !== resting) entries.splice(place, 0, resting);
  }

  delete(resting: Resting): void {
    this.#byValue.delete(resting.value);
    this.#clearDead();
  }

  /** The address whose cool-down ends first; null: none is cooling. */
  peek(): Resting | null {
    for (; this.#head < this.#entries.length; this.#head++) {
      const resting = this.#entries[this.#head] as Resting;
      if (this.#isAlive(resting)) return resting;
    }
    return null;
  }

  /** In order of the end of cool-down. Entries added or removed meanwhile may be seen or not, but none twice. */
  *[Symbol.iterator](): Generator<Resting> {
    let previous: Resting | null = null;
    for (;;) {
      const next = this.#firstAfter(previous);
      if (next === null) return;
      yield next;
      previous = next;
    }
  }

  #isAlive(resting: Resting): boolean {
    return this.#byValue.get(resting.value) === resting;
  }

  #firstAfter(previous: Resting | null): Resting | null {
    if (previous === null) return this.peek();
    for (let i = this.#firstNotBefore(previous); i < this.#entries.length; i++) {
      const resting = this.#entries[i] as Resting;
      if (resting !== previous && this.#isAlive(resting)) return resting;
    }
    return null;
  }

  /** Index of the first entry from the head on that does not come before the given one. */
  #firstNotBefore(resting: Resting): number {
    let low = this.#head;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (comesBefore(this.#entries[middle] as Resting, resting)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #clearDead(): void {
    const dead = this.#entries.length - this.#byValue.size;
    if (dead < DEAD_ENTRIES_MIN || dead < this.#byValue.size) return;
    this.#entries = this.#entries.slice(this.#head).filter((resting) => this.#isAlive(resting));
    this.#head = 0;
  }
}

function comesBefore(a: Resting, b: Resting): boolean {
  return a.restUntilMs < b.restUntilMs || (a.restUntilMs === b.restUntilMs && a.sequence < b.sequence);
}
