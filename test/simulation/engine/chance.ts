/**
 * Chance that the seed decides: the same seed and name are the same numbers, on every machine, whatever others draw.
 */
export class Chance {
  readonly #seed: number;
  #state: number;

  constructor(seed: number | string) {
    this.#seed = typeof seed === "number" ? seed >>> 0 : hashOf(seed);
    this.#state = this.#seed;
  }

  /** [0, 1). */
  number(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    return mixed(this.#state) / 2 ** 32;
  }

  /** A whole number from 0 to `end` - 1. */
  below(end: number): number {
    return Math.floor(this.number() * end);
  }

  /** `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + this.below(to - from + 1);
  }

  /** Whether something of this probability happens now. */
  happens(probability: number): boolean {
    return this.number() < probability;
  }

  /** One of a list; undefined: it is empty. */
  of<T>(list: readonly T[]): T | undefined {
    return list[this.below(list.length)];
  }

  /** Another source of chance, which depends on the seed and the name only. */
  fork(name: string): Chance {
    return new Chance(`${this.#seed} ${name}`);
  }
}

/** [0, 1), of a seed and a name. */
export function numberOf(seed: number, name: string): number {
  return mixed((hashOf(name) ^ Math.imul(seed, 0x9e3779b1)) >>> 0) / 2 ** 32;
}

/** FNV-1a, 32 bits. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** mulberry32's last steps. */
function mixed(state: number): number {
  let value = Math.imul(state ^ (state >>> 15), state | 1);
  value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
  return (value ^ (value >>> 14)) >>> 0;
}
