/** Choices that a seed repeats. */
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed: number) {
    this.seed = seed;
    this.#state = seed;
  }

  /** mulberry32: [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number from 0 to below the bound. */
  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T;
  }
}

/** From HOLDFAST_TEST_SEED, else a new one; printed, so that a failure can be repeated. */
export function seededRandom(what: string): Random {
  const given = process.env.HOLDFAST_TEST_SEED;
  const seed = given === undefined ? Date.now() % 1_000_000_007 : Number(given);
  if (!Number.isInteger(seed)) throw new Error(`HOLDFAST_TEST_SEED is ${given}: expected a whole number`);
  console.log(`${what}: repeat with HOLDFAST_TEST_SEED=${seed}`);
  return new Random(seed);
}

/**
 * How often a random run repeats: HOLDFAST_TEST_ROUNDS for a long search, else what each run of all tests can afford.
 */
export function roundsOr(usual: number): number {
  const given = process.env.HOLDFAST_TEST_ROUNDS;
  const rounds = given === undefined ? usual : Number(given);
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`HOLDFAST_TEST_ROUNDS is ${given}: expected a whole number above 0`);
  return rounds;
}
