import type { AddWaiters } from "../claims/add-waiters.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { Clock } from "../platform/time.ts";
import { StorageAway } from "../store/allocations.ts";
import type { Unready } from "../store/readiness.ts";

/** Pause, ms, before another attempt where the state was away and nothing is in the way any more. */
const AGAIN_MS = 20;
/** The key of everybody who waits for it. */
const READINESS = "readiness";

export interface WaitLimits {
  /** An event of one of these ends the wait too. */
  readonly keys?: readonly string[];
  /** An instant of the monotonic clock, ms. */
  readonly deadlineMs: number;
}

/** Where requests wait for the daemon. See docs/decisions/0082. */
export class ReadyGate {
  readonly #clock: Clock;
  readonly #waiting: AddWaiters;
  readonly #unready: () => Unready | null;

  constructor(clock: Clock, waiting: AddWaiters, unready: () => Unready | null) {
    this.#clock = clock;
    this.#waiting = waiting;
    this.#unready = unready;
  }

  /** What `unready` returns may be something else now. */
  changed(): void {
    this.#waiting.wake(READINESS);
  }

  /**
   * What `attempt` returns. It is called with what is in the way, and null when nothing is; where it returns null, or
   * the state database goes away under it, it is called again when that has changed. Throws RefusalError NOT_READY, at
   * once where waiting is in vain, TOO_MANY_WAITING, DAEMON_ENDING, and what `attempt` throws.
   */
  async serve<T>(
    { keys = [], deadlineMs }: WaitLimits,
    attempt: (unready: Unready | null) => Promise<T | null>,
  ): Promise<T> {
    const answer = await this.#try(attempt);
    if (answer !== null) return answer;
    const place = this.#waiting.enter([READINESS, ...keys]);
    try {
      for (;;) {
        const repeated = await this.#try(attempt);
        if (repeated !== null) return repeated;
        await this.#wait(place, deadlineMs);
      }
    } finally {
      place.leave();
    }
  }

  async #try<T>(attempt: (unready: Unready | null) => Promise<T | null>): Promise<T | null> {
    try {
      return await attempt(this.#unready());
    } catch (error) {
      if (error instanceof StorageAway) return null;
      throw error;
    }
  }

  async #wait(place: ReturnType<AddWaiters["enter"]>, deadlineMs: number): Promise<void> {
    const unready = this.#unready();
    const leftMs = deadlineMs - this.#clock.monotonicMs();
    if (unready?.outlook === "ends") throw new RefusalError(refuse("DAEMON_ENDING", {}));
    if (unready?.outlook === "stays" || leftMs <= 0) {
      const { reason } = unready ?? { reason: "the state database was away until now" };
      throw new RefusalError(refuse("NOT_READY", { reason }));
    }
    const woken = await place.wait(unready === null ? Math.min(leftMs, AGAIN_MS) : leftMs);
    if (woken === "closed") throw new RefusalError(refuse("DAEMON_ENDING", {}));
    if (woken === "full") throw new RefusalError(refuse("TOO_MANY_WAITING", { count: this.#waiting.count }));
  }
}
