import type { Timer } from "../../platform/time.ts";
import { ManualClock } from "./manual-clock.ts";
import { VirtualTime } from "./virtual-time.ts";
import { until } from "./wait.ts";

/** Longer than anything waits between two tries, ms. */
const STEP_MS = 30_000;

/** Its timers wait until the test lets time pass. */
export class PassingClock extends ManualClock {
  readonly #time = new VirtualTime();
  readonly #clock = this.#time.clock();

  override monotonicMs(): number {
    return this.#clock.monotonicMs();
  }

  override timer(ms: number, fire: () => void): Timer {
    return this.#clock.timer(ms, fire);
  }

  /** Lets time pass until the condition holds. */
  async passUntil(holds: () => boolean, what: string): Promise<void> {
    await until(async () => {
      await this.#time.pass(STEP_MS);
      return holds();
    }, what);
  }

  /** Lets time pass until it is done. */
  async passWhile<T>(work: Promise<T>): Promise<T> {
    let isDone = false;
    const done = () => {
      isDone = true;
    };
    work.then(done, done);
    await this.passUntil(() => isDone, "the work");
    return work;
  }
}
