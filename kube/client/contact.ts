import type { Clock } from "../../platform/time.ts";

/**
 * How long after trouble, ms, refusals of the server may be temporary: a server that has just started refuses (403)
 * everything whose roles it has not read yet.
 */
const SETTLING_MS = 10_000;

/** When the API server was last in trouble. */
export class Contact {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #lastTroubleMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** Whether a refusal may be temporary, because the server was away or failing until just now. */
  get isSettling(): boolean {
    return this.#clock.monotonicMs() - this.#lastTroubleMs < SETTLING_MS;
  }

  /** The beginning of an answer with this status has arrived. */
  answered(status: number): void {
    if (status >= 500) this.trouble();
  }

  /** The server failed, or could not be reached. */
  trouble(): void {
    this.#lastTroubleMs = this.#clock.monotonicMs();
  }
}
