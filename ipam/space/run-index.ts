import { type Interval, type IntervalSet, lastAtMost } from "./interval-set.ts";

/** Runs in a chunk before it is split: long enough that chunks are few, short enough that a shift is cheap. */
const CHUNK_RUNS_MAX = 512;
/** Two neighbouring chunks with no more runs than this in total are joined. */
const CHUNK_RUNS_JOIN = 256;

/** Consecutive runs: `firsts[i]..lasts[i]`, ascending, not touching, never empty. */
interface Chunk {
  readonly firsts: bigint[];
  readonly lasts: bigint[];
}

/**
 * A set of numbers that changes one by one, such as the free ones of a pool, as sorted runs in chunks. Each operation
 * costs two binary searches and at most one shift within a chunk, for a /24 or a /32 of IPv6, full, empty or
 * fragmented. See docs/decisions/0003.
 */
export class RunIndex {
  readonly #chunks: Chunk[] = [];
  /** `#starts[c]` is the first number of `#chunks[c]`, in a list of its own so that the search reads one array. */
  readonly #starts: bigint[] = [];
  #count: bigint;

  constructor(members: IntervalSet) {
    this.#count = members.size;
    let chunk: Chunk = { firsts: [], lasts: [] };
    for (const { first, last } of members.intervals()) {
      chunk.firsts.push(first);
      chunk.lasts.push(last);
      if (chunk.firsts.length === CHUNK_RUNS_JOIN) {
        this.#append(chunk);
        chunk = { firsts: [], lasts: [] };
      }
    }
    if (chunk.firsts.length > 0) this.#append(chunk);
  }

  get count(): bigint {
    return this.#count;
  }

  /** Number of runs and chunks: what the cost of an operation depends on. */
  get shape(): { readonly runs: number; readonly chunks: number } {
    let runs = 0;
    for (const chunk of this.#chunks) runs += chunk.firsts.length;
    return { runs, chunks: this.#chunks.length };
  }

  /** The runs, ascending. */
  *intervals(): Generator<Interval> {
    for (const { firsts, lasts } of this.#chunks) {
      for (let i = 0; i < firsts.length; i++) yield { first: at(firsts, i), last: at(lasts, i) };
    }
  }

  has(value: bigint): boolean {
    const chunk = this.#chunks[lastAtMost(this.#starts, value)];
    return chunk !== undefined && at(chunk.lasts, lastAtMost(chunk.firsts, value)) >= value;
  }

  /** The first number in it from `value` on, else the lowest; null when it is empty. */
  nextFrom(value: bigint): bigint | null {
    const c = lastAtMost(this.#starts, value);
    const chunk = this.#chunks[c];
    if (chunk !== undefined) {
      const i = lastAtMost(chunk.firsts, value);
      if (at(chunk.lasts, i) >= value) return value;
      const following = chunk.firsts[i + 1];
      if (following !== undefined) return following;
    }
    return this.#starts[c + 1] ?? this.#starts[0] ?? null;
  }

  /** Takes a number out. Returns false and does nothing when it was not in it. */
  take(value: bigint): boolean {
    const c = lastAtMost(this.#starts, value);
    const chunk = this.#chunks[c];
    if (chunk === undefined) return false;
    const { firsts, lasts } = chunk;
    const i = lastAtMost(firsts, value);
    const first = at(firsts, i);
    const last = at(lasts, i);
    if (last < value) return false;
    this.#count -= 1n;
    if (first === last) this.#removeRun(c, i);
    else if (first === value) this.#setFirst(c, i, value + 1n);
    else if (last === value) lasts[i] = value - 1n;
    else {
      lasts[i] = value - 1n;
      this.#insertRun(c, i + 1, value + 1n, last);
    }
    return true;
  }

  /** Puts a number in. Returns false and does nothing when it was in it already. */
  give(value: bigint): boolean {
    let c = lastAtMost(this.#starts, value);
    if (c < 0) {
      if (this.#chunks.length === 0) {
        this.#append({ firsts: [value], lasts: [value] });
        this.#count += 1n;
        return true;
      }
      c = 0;
    }
    const { firsts, lasts } = this.#chunk(c);
    const i = lastAtMost(firsts, value);
    if (i >= 0 && at(lasts, i) >= value) return false;
    this.#count += 1n;
    const touchesBefore = i >= 0 && at(lasts, i) === value - 1n;
    const following = i + 1 < firsts.length ? firsts[i + 1] : this.#starts[c + 1];
    const touchesAfter = following === value + 1n;
    if (touchesBefore && touchesAfter) this.#joinWithFollowing(c, i);
    else if (touchesBefore) lasts[i] = value;
    else if (!touchesAfter) this.#insertRun(c, i + 1, value, value);
    else if (i + 1 < firsts.length) this.#setFirst(c, i + 1, value);
    else this.#setFirst(c + 1, 0, value);
    return true;
  }

  #chunk(c: number): Chunk {
    return this.#chunks[c] as Chunk;
  }

  #append(chunk: Chunk): void {
    this.#chunks.push(chunk);
    this.#starts.push(at(chunk.firsts, 0));
  }

  #setFirst(c: number, i: number, first: bigint): void {
    this.#chunk(c).firsts[i] = first;
    if (i === 0) this.#starts[c] = first;
  }

  /** Joins run i of chunk c with the next run, which may be in the next chunk, when no gap remains between them. */
  #joinWithFollowing(c: number, i: number): void {
    const { firsts, lasts } = this.#chunk(c);
    if (i + 1 < firsts.length) {
      lasts[i] = at(lasts, i + 1);
      this.#removeRun(c, i + 1);
    } else {
      lasts[i] = at(this.#chunk(c + 1).lasts, 0);
      this.#removeRun(c + 1, 0);
    }
  }

  #insertRun(c: number, i: number, first: bigint, last: bigint): void {
    const chunk = this.#chunk(c);
    chunk.firsts.splice(i, 0, first);
    chunk.lasts.splice(i, 0, last);
    if (i === 0) this.#starts[c] = first;
    if (chunk.firsts.length <= CHUNK_RUNS_MAX) return;
    const half = chunk.firsts.length >>> 1;
    const upper: Chunk = { firsts: chunk.firsts.splice(half), lasts: chunk.lasts.splice(half) };
    this.#chunks.splice(c + 1, 0, upper);
    this.#starts.splice(c + 1, 0, at(upper.firsts, 0));
  }

  #removeRun(c: number, i: number): void {
    const { firsts, lasts } = this.#chunk(c);
    firsts.splice(i, 1);
    lasts.splice(i, 1);
    if (firsts.length === 0) {
      this.#chunks.splice(c, 1);
      this.#starts.splice(c, 1);
      return;
    }
    if (i === 0) this.#starts[c] = at(firsts, 0);
    this.#joinChunks(c);
    this.#joinChunks(c - 1);
  }

  /** Joins chunk c with the next one when both are short, so that chunks stay few. */
  #joinChunks(c: number): void {
    const chunk = this.#chunks[c];
    const next = this.#chunks[c + 1];
    if (chunk === undefined || next === undefined) return;
    if (chunk.firsts.length + next.firsts.length > CHUNK_RUNS_JOIN) return;
    chunk.firsts.push(...next.firsts);
    chunk.lasts.push(...next.lasts);
    this.#chunks.splice(c + 1, 1);
    this.#starts.splice(c + 1, 1);
  }
}

/** An element known to exist: every index comes from a search in the same list. */
function at(list: readonly bigint[], index: number): bigint {
  return list[index] as bigint;
}
