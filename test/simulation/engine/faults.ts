import type { Faults } from "../world.ts";
import { numberOf } from "./chance.ts";

export interface FaultLimits {
  /** Only these happen, whatever the seed says: those of a history that is told again. null: as the seed says. */
  readonly only?: ReadonlySet<string> | null;
}

/** Decides by seed and key; remembers what happened. */
export class KeyedFaults implements Faults {
  isOn = true;
  /** Keys of what went wrong, in order. */
  readonly happened: string[] = [];
  readonly #seed: number;
  readonly #only: ReadonlySet<string> | null;

  constructor(seed: number, { only = null }: FaultLimits = {}) {
    this.#seed = seed;
    this.#only = only;
  }

  decide(key: string, probability: number): boolean {
    if (!this.isOn) return false;
    const happens = this.#only === null ? numberOf(this.#seed, key) < probability : this.#only.has(key);
    if (happens) this.happened.push(key);
    return happens;
  }

  number(key: string): number {
    return numberOf(this.#seed, key);
  }
}
