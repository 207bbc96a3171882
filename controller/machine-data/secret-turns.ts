import type { Clock } from "../../platform/time.ts";

/** So long after, ms, a Secret that was there is looked for again: the garbage collector may delete a former's. */
const SOON_MS = [5_000, 30_000];

interface Due {
  readonly key: string;
  readonly atMs: number;
}

/** Whose Secrets are looked for next: those that may be about to vanish, then every data object in turn. */
export class SecretTurns {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** In the order in which they are due. */
  #soon: Due[] = [];
  #turn: string[] = [];

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** The Secrets of a data object that was rendered for the first time were there already. `key`: `namespace/name`. */
  noteFound(key: string): void {
    const nowMs = this.#clock.monotonicMs();
    this.#soon.push(...SOON_MS.map((ms) => ({ key, atMs: nowMs + ms })));
    this.#soon.sort((a, b) => a.atMs - b.atMs);
  }

  /** A round begins where the last one has ended. `keys`: of all data objects. */
  begin(keys: Iterable<string>): void {
    if (this.#turn.length === 0) this.#turn = [...keys].reverse();
  }

  /** null: the round is over. */
  next(): string | null {
    const [first] = this.#soon;
    if (first === undefined || first.atMs > this.#clock.monotonicMs()) return this.#turn.pop() ?? null;
    this.#soon.shift();
    return first.key;
  }
}
