import type { Clock } from "../platform/time.ts";

/** Growing waits between attempts, with jitter, so that many clients do not retry at the same time. */
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

  /** The next wait, ms: between half of the step and all of it. The step doubles each time. */
  next(): number {
    const step = this.#nextMs;
    this.#nextMs = Math.min(step * 2, this.#maxMs);
    return step * (0.5 + this.#clock.random() / 2);
  }

  /** After a success. */
  reset(): void {
    this.#nextMs = this.#minMs;
  }
}
