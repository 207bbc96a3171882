import type { Log } from "../platform/log.ts";
import { logFailure, PeriodicTask } from "../platform/periodic-task.ts";
import type { Clock } from "../platform/time.ts";
import type { ControllerPart, Occasion } from "./part.ts";

/** From a change to the pass that looks at it, ms: changes that come together have one. */
const SETTLE_MS = 200;

interface PartTaskOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  /** Why nothing may be written now; null: it may. */
  idle(): string | null;
}

/**
 * A part as a task. Its occasions begin a pass at once. A change of what the controller follows begins one soon, but no sooner
 * than `everyMs` after the one before, however many changes come. A pass that failed, or could not work, is owed: it comes
 * again after `everyMs`.
 */
export class PartTask {
  readonly #part: ControllerPart;
  readonly #clock: Clock;
  readonly #task: PeriodicTask;
  /** The end of the last pass, ms of the clock. */
  #endMs = Number.NEGATIVE_INFINITY;
  #isOwed = false;

  constructor(part: ControllerPart, { clock, log, idle }: PartTaskOptions) {
    const { everyMs, quietMs = everyMs, rest = {}, nextMs, work } = part;
    this.#part = part;
    this.#clock = clock;
    this.#task = new PeriodicTask({
      ...{ clock, intervalMs: quietMs, rest },
      work: async (signal) => {
        this.#isOwed = true;
        try {
          await work(signal);
          this.#isOwed = idle() !== null;
        } finally {
          this.#endMs = clock.monotonicMs();
        }
      },
      nextMs: () => {
        const againMs = this.#isOwed ? this.#endMs + everyMs : Number.POSITIVE_INFINITY;
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
    const { triggers = [], everyMs } = this.#part;
    if (!triggers.includes(occasion)) return;
    if (occasion !== "changed") this.#task.trigger();
    else this.#task.trigger(Math.max(SETTLE_MS, this.#endMs + everyMs - this.#clock.monotonicMs()));
  }
}
