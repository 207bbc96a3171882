import type { Clock } from "./time.ts";

/** Waiting for conditions: every waiter checks its own condition at each `notify`. */
export class Notifier {
  readonly #clock: Clock;
  readonly #waiters = new Set<() => void>();
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get closed(): boolean {
    return this.#closed;
  }

  notify(): void {
    for (const check of [...this.#waiters]) check();
  }

  /** Releases all waiters, now and from now on. */
  close(): void {
    this.#closed = true;
    this.notify();
  }

  /** Resolves when the condition holds, the time is up, or the notifier is closed. `waitMs`: from now. */
  async until(condition: () => boolean, waitMs: number): Promise<void> {
    if (this.#closed || condition() || waitMs <= 0) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        timer.cancel();
        this.#waiters.delete(check);
        resolve();
      };
      const check = () => {
        if (this.#closed || condition()) done();
      };
      const timer = this.#clock.timer(waitMs, done);
      this.#waiters.add(check);
    });
  }
}
