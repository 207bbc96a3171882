import { SingleFlight } from "../single-flight.ts";
import { type Clock, sleep } from "../time.ts";
import { PAUSE_PER_WORK } from "./reader-queue.ts";

/** The same answer for whoever asks: computed once for all who wait, and with pauses twice as long as that took. */
export class SharedAnswer<T> {
  readonly #clock: Clock;
  readonly #compute: () => Promise<T>;
  readonly #flights = new SingleFlight<T>();
  #pauseUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, compute: () => Promise<T>) {
    this.#clock = clock;
    this.#compute = compute;
  }

  /** Never older than the question. */
  next(): Promise<T> {
    return this.#flights.next(async () => {
      const pauseMs = this.#pauseUntilMs - this.#clock.monotonicMs();
      if (pauseMs > 0) await sleep(this.#clock, pauseMs);
      const sinceMs = this.#clock.monotonicMs();
      try {
        return await this.#compute();
      } finally {
        const nowMs = this.#clock.monotonicMs();
        this.#pauseUntilMs = nowMs + PAUSE_PER_WORK * (nowMs - sinceMs);
      }
    });
  }
}
