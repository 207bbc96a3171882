/** What is due at some moment. The heap it is in writes `index`. */
export interface Due {
  readonly atMs: number;
  /** Of two of the same moment the lower one comes first. */
  readonly order: number;
  /** -1: it is in no heap. */
  index: number;
}

/** A binary heap whose members know their place, so that each can be taken out again in O(log n). */
export class TimerHeap<T extends Due> {
  #members: T[] = [];

  get first(): T | undefined {
    return this.#members[0];
  }

  push(one: T): void {
    this.#members.push(one);
    this.#rise(one, this.#members.length - 1);
  }

  /** Takes out the first. */
  shift(): T | undefined {
    const first = this.#members[0];
    if (first !== undefined) this.remove(first);
    return first;
  }

  /** Does nothing when it is not there. */
  remove(one: T): void {
    const place = one.index;
    if (place < 0) return;
    one.index = -1;
    const last = this.#members.pop() as T;
    if (last === one) return;
    if (isBefore(last, one)) this.#rise(last, place);
    else this.#sink(last, place);
  }

  /** Takes out all of which this holds. */
  removeAll(holds: (one: T) => boolean): T[] {
    const removed = this.#members.filter(holds);
    for (const one of removed) this.remove(one);
    return removed;
  }

  #rise(one: T, from: number): void {
    const members = this.#members;
    let place = from;
    while (place > 0) {
      const above = (place - 1) >>> 1;
      const other = members[above] as T;
      if (!isBefore(one, other)) break;
      this.#put(other, place);
      place = above;
    }
    this.#put(one, place);
  }

  #sink(one: T, from: number): void {
    const members = this.#members;
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= members.length) break;
      const right = members[below + 1];
      if (right !== undefined && isBefore(right, members[below] as T)) below += 1;
      const other = members[below] as T;
      if (!isBefore(other, one)) break;
      this.#put(other, place);
      place = below;
    }
    this.#put(one, place);
  }

  #put(one: T, place: number): void {
    this.#members[place] = one;
    one.index = place;
  }
}

function isBefore(one: Due, other: Due): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}
