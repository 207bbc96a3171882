import { type Clock, nextTurn } from "../platform/time.ts";

/** Work in one turn of the event loop, ms: an ADD that waits beside a list of thousands of objects must not feel it. */
const TURN_MS_MAX = 8;

/** Keeps a long piece of work from holding the event loop. */
export class TurnBudget {
  readonly #clock: Clock;
  #sinceMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonicMs();
  }

  /** Whether it is time for `nextTurn`. Asked first, because awaiting at every step costs more than the steps. */
  get isSpent(): boolean {
    return this.#clock.monotonicMs() - this.#sinceMs > TURN_MS_MAX;
  }

  /** Lets everybody else have a turn. */
  async nextTurn(): Promise<void> {
    await nextTurn(this.#clock);
    this.#sinceMs = this.#clock.monotonicMs();
  }
}
