import type { Clock } from "../../platform/time.ts";

/** So long after trouble, ms, a 403 may pass: a server that has just started has not read its roles yet. */
const SETTLING_MS = 10_000;

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

  trouble(): void {
    this.#lastTroubleMs = this.#clock.monotonicMs();
  }
}
