/** One resting address. Immutable but for its place in the queue. */
export interface Resting {
  readonly value: bigint;
  readonly restUntilMs: number;
  /** Order of release among equal ends of rest. */
  readonly sequence: number;
}

/** Dead entries that are never worth clearing away. */
const DEAD_ENTRIES_MIN = 64;

/**
 * Resting addresses in the order in which their rest ends. They nearly always come in that order, so the queue is an
 * array with its past cut off at the front; an address taken out of the middle leaves a dead entry until half of the
 * array is dead.
 */
export class CoolingQueue {
  readonly #byValue = new Map<bigint, Resting>();
  #entries: Resting[] = [];
  #head = 0;
  #sequence = 0;

  get size(): number {
    return this.#byValue.size;
  }

  /** Entries kept, dead ones included: what memory follows. */
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

  /** Puts back, at its old place, what `delete` took out. */
  restore(resting: Resting): void {
    this.#byValue.set(resting.value, resting);
    const entries = this.#entries;
    const newest = entries[entries.length - 1];
    if (newest === undefined || comesBefore(newest, resting)) {
      entries.push(resting);
      return;
    }
    const place = this.#firstNotBefore(resting);
    // The entry itself may still be there, dead since it was taken out.
    if (entries[place] !== resting) entries.splice(place, 0, resting);
  }

  delete(resting: Resting): void {
    this.#byValue.delete(resting.value);
    this.#clearDead();
  }

  /** The address whose rest ends first, null when none rests. */
  peek(): Resting | null {
    for (; this.#head < this.#entries.length; this.#head++) {
      const resting = this.#entries[this.#head] as Resting;
      if (this.#isAlive(resting)) return resting;
    }
    return null;
  }

  /** In order of their ends of rest. Entries that come or go meanwhile are seen or not, but none twice. */
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
