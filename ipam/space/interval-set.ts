/** A run of numbers, both ends included. */
export interface Interval {
  readonly first: bigint;
  readonly last: bigint;
}

/** An immutable set of numbers: sorted runs that neither overlap nor touch. Cost follows the runs: a /8 is one. */
export class IntervalSet {
  static readonly EMPTY = new IntervalSet([], []);

  readonly #firsts: readonly bigint[];
  readonly #lasts: readonly bigint[];
  readonly size: bigint;
  /** How many numbers come before each run; computed at the first call of `at`. */
  #before: readonly bigint[] | null = null;

  private constructor(firsts: readonly bigint[], lasts: readonly bigint[]) {
    this.#firsts = firsts;
    this.#lasts = lasts;
    let size = 0n;
    for (let i = 0; i < firsts.length; i++) size += at(lasts, i) - at(firsts, i) + 1n;
    this.size = size;
  }

  static of(first: bigint, last: bigint): IntervalSet {
    return IntervalSet.from([{ first, last }]);
  }

  /** The set of all these runs, which may come in any order, overlap and repeat. O(n log n). */
  static from(intervals: Iterable<Interval>): IntervalSet {
    const sorted = [...intervals].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
    const builder = new Builder();
    for (const { first, last } of sorted) {
      if (last < first) throw new RangeError(`interval ends at ${last} before it starts at ${first}`);
      builder.add(first, last);
    }
    return new IntervalSet(builder.firsts, builder.lasts);
  }

  /** What is in any of these. All runs are sorted once: a union at a time takes time with the square of the sets. */
  static join(sets: readonly IntervalSet[]): IntervalSet {
    const [only = IntervalSet.EMPTY, ...others] = sets.filter(({ size }) => size > 0n);
    return others.length === 0 ? only : IntervalSet.from([only, ...others].flatMap((one) => [...one.intervals()]));
  }

  get intervalCount(): number {
    return this.#firsts.length;
  }

  /** The lowest number, null when empty. */
  get first(): bigint | null {
    return this.#firsts[0] ?? null;
  }

  /** The highest number, null when empty. */
  get last(): bigint | null {
    return this.#lasts[this.#lasts.length - 1] ?? null;
  }

  /** The runs, ascending. */
  *intervals(): Generator<Interval> {
    for (let i = 0; i < this.#firsts.length; i++) yield { first: at(this.#firsts, i), last: at(this.#lasts, i) };
  }

  /** O(log runs). */
  contains(value: bigint): boolean {
    const i = lastAtMost(this.#firsts, value);
    return i >= 0 && at(this.#lasts, i) >= value;
  }

  /** Whether every number from first to last is in the set. O(log runs). */
  covers(first: bigint, last: bigint): boolean {
    const i = lastAtMost(this.#firsts, first);
    return i >= 0 && at(this.#lasts, i) >= last;
  }

  /** Whether any number from first to last is in the set. O(log runs). */
  holdsAny(first: bigint, last: bigint): boolean {
    const i = lastAtMost(this.#firsts, last);
    return i >= 0 && at(this.#lasts, i) >= first;
  }

  /** The number at this rank; 0 is the lowest. O(log runs). */
  at(rank: bigint): bigint {
    if (rank < 0n || rank >= this.size) throw new RangeError(`rank ${rank} in a set of ${this.size}`);
    this.#before ??= runningTotals(this.#firsts, this.#lasts);
    const i = lastAtMost(this.#before, rank);
    return at(this.#firsts, i) + rank - at(this.#before, i);
  }

  /** How many runs end before a number: where two sets can first meet. */
  #runsBefore(value: bigint): number {
    return lastAtMost(this.#lasts, value - 1n) + 1;
  }

  union(other: IntervalSet): IntervalSet {
    if (other.size === 0n) return this;
    if (this.size === 0n) return other;
    const builder = new Builder();
    let a = 0;
    let b = 0;
    while (a < this.#firsts.length || b < other.#firsts.length) {
      const takeA =
        b >= other.#firsts.length || (a < this.#firsts.length && at(this.#firsts, a) <= at(other.#firsts, b));
      if (takeA) builder.add(at(this.#firsts, a), at(this.#lasts, a++));
      else builder.add(at(other.#firsts, b), at(other.#lasts, b++));
    }
    return new IntervalSet(builder.firsts, builder.lasts);
  }

  intersect(other: IntervalSet): IntervalSet {
    const builder = new Builder();
    let a = this.#runsBefore(other.first ?? 0n);
    let b = other.#runsBefore(this.first ?? 0n);
    while (a < this.#firsts.length && b < other.#firsts.length) {
      const first = later(at(this.#firsts, a), at(other.#firsts, b));
      const aLast = at(this.#lasts, a);
      const bLast = at(other.#lasts, b);
      const last = earlier(aLast, bLast);
      if (first <= last) builder.add(first, last);
      if (aLast <= bLast) a++;
      if (bLast <= aLast) b++;
    }
    return new IntervalSet(builder.firsts, builder.lasts);
  }

  subtract(other: IntervalSet): IntervalSet {
    if (other.size === 0n || this.size === 0n) return this;
    const builder = new Builder();
    let b = other.#runsBefore(this.first ?? 0n);
    for (let a = 0; a < this.#firsts.length; a++) {
      let first = at(this.#firsts, a);
      const last = at(this.#lasts, a);
      while (b < other.#firsts.length && at(other.#lasts, b) < first) b++;
      let cut = b;
      while (cut < other.#firsts.length && at(other.#firsts, cut) <= last) {
        const cutFirst = at(other.#firsts, cut);
        if (cutFirst > first) builder.add(first, cutFirst - 1n);
        first = at(other.#lasts, cut) + 1n;
        cut++;
      }
      if (first <= last) builder.add(first, last);
      // The last run subtracted may extend into the next run of this set.
      b = cut > b ? cut - 1 : b;
    }
    return new IntervalSet(builder.firsts, builder.lasts);
  }
}

/** Collects runs in ascending order of their start, and joins those that overlap or touch. */
class Builder {
  readonly firsts: bigint[] = [];
  readonly lasts: bigint[] = [];

  add(first: bigint, last: bigint): void {
    const previous = this.lasts.length - 1;
    const previousLast = this.lasts[previous];
    if (previousLast === undefined || first > previousLast + 1n) {
      this.firsts.push(first);
      this.lasts.push(last);
    } else if (last > previousLast) {
      this.lasts[previous] = last;
    }
  }
}

/** Index of the last element that is at most `value` in an ascending list; -1 when all are larger. */
export function lastAtMost(ascending: readonly bigint[], value: bigint): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at(ascending, middle) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function runningTotals(firsts: readonly bigint[], lasts: readonly bigint[]): bigint[] {
  const totals: bigint[] = [];
  let total = 0n;
  for (let i = 0; i < firsts.length; i++) {
    totals.push(total);
    total += at(lasts, i) - at(firsts, i) + 1n;
  }
  return totals;
}

function earlier(a: bigint, b: bigint): bigint {
  if (a < b) return a;
  return b;
}

function later(a: bigint, b: bigint): bigint {
  if (a > b) return a;
  return b;
}

/** An element known to exist: every index comes from the list's own length. */
function at(list: readonly bigint[], index: number): bigint {
  return list[index] as bigint;
}
