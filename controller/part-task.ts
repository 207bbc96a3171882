import type { Log } from "../platform/log.ts";
import { logFailure, PeriodicTask } from "../platform/periodic-task.ts";
import type { Clock } from "../platform/time.ts";
import type { ControllerPart, Occasion } from "./part.ts";

/** From a change to the pass that looks at it, ms: changes that come together have one. */
const SETTLE_MS = 200;

interface PartTaskOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  idle(): string | null;
}

/**
 * A part as a task. Its occasions begin a pass at once. A change of what the controller follows begins one soon, but no
 * sooner than `everyMs` after the one before, however many changes come. A pass that failed, could not work, or during
 * which something has changed is pending: it runs again after `everyMs`.
 */
export class PartTask {
  readonly #part: ControllerPart;
  readonly #clock: Clock;
  readonly #task: PeriodicTask;
  /** The end of the last pass, ms of the clock. */
  #endMs = Number.NEGATIVE_INFINITY;
  #isPending = false;
  #isRunning = false;

  constructor(part: ControllerPart, { clock, log, idle }: PartTaskOptions) {
    const { everyMs, quietMs = everyMs, rest = {}, nextMs, work } = part;
    this.#part = part;
    this.#clock = clock;
    this.#task = new PeriodicTask({
      ...{ clock, intervalMs: quietMs, rest },
      work: async (signal) => {
        this.#isPending = false;
        this.#isRunning = true;
        let isDone = false;
        try {
          await work(signal);
          isDone = idle() === null;
        } finally {
          this.#isRunning = false;
          if (!isDone) this.#isPending = true;
          this.#endMs = clock.monotonicMs();
        }
      },
      nextMs: () => {
        const againMs = this.#isPending ? this.#endMs + everyMs : Number.POSITIVE_INFINITY;
        return Math.min(againMs, nextMs?.() ?? Number.POSITIVE_INFINITY);
      },
      onFailure: logFailure(log, part.name),
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  occur(occasion: Occasion): void {
    const { triggers = [] } = this.#part;
    if (!triggers.includes(occasion)) return;
    if (occasion === "changed") this.changed();
    else this.trigger();
  }

  trigger(): void {
    this.#task.trigger();
  }

  changed(): void {
    // Also by what the pass itself has written.
    if (this.#isRunning) {
      this.#isPending = true;
      return;
    }
    const againMs = this.#endMs + this.#part.everyMs;
    this.#task.trigger(Math.max(SETTLE_MS, againMs - this.#clock.monotonicMs()));
  }
}
