import type { Clock } from "../platform/time.ts";

/** Growing waits with full jitter: what thousands of nodes lost at once they ask for again over the whole step. */
export class Backoff {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #clock: Pick<Clock, "random">;
  #nextMs: number;

  /** The first wait is at most `minMs`, none is longer than `maxMs`; the jitter is the clock's. */
  constructor(minMs: number, maxMs: number, clock: Pick<Clock, "random">) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#clock = clock;
    this.#nextMs = minMs;
  }

  /** The next wait, ms: any part of the step, which doubles each time. */
  next(): number {
    const step = this.#nextMs;
    this.#nextMs = Math.min(step * 2, this.#maxMs);
    return step * this.#clock.random();
  }

  /** After a success. */
  reset(): void {
    this.#nextMs = this.#minMs;
  }
}
