import { type Clock, nextTurn } from "../platform/time.ts";

/** Work in one turn of the event loop, ms: an ADD must not notice a list of thousands of objects. */
const TURN_MS_MAX = 8;

export class TurnBudget {
  readonly #clock: Clock;
  #sinceMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonicMs();
  }

  /** Whether to await `nextTurn` now. Checked first, because awaiting at every step costs more than the steps. */
  get isSpent(): boolean {
    return this.#clock.monotonicMs() - this.#sinceMs > TURN_MS_MAX;
  }

  async nextTurn(): Promise<void> {
    await nextTurn(this.#clock);
    this.#sinceMs = this.#clock.monotonicMs();
  }
}
