import type { Clock } from "../../platform/time.ts";

/**
 * After trouble, ms, the server's refusals may not be meant: one that has just started refuses (403) whatever it has not read
 * the roles for yet.
 */
const SETTLING_MS = 10_000;

/** When the API server was in trouble last. */
export class Contact {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #lastTroubleMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** Whether a refusal may be withdrawn in a moment, because the server was away or failing until just now. */
  get isSettling(): boolean {
    return this.#clock.monotonicMs() - this.#lastTroubleMs < SETTLING_MS;
  }

  /** An answer of this status has begun. */
  answered(status: number): void {
    if (status >= 500) this.trouble();
  }

  /** The server failed, or could not be heard. */
  trouble(): void {
    this.#lastTroubleMs = this.#clock.monotonicMs();
  }
}
