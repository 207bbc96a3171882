import type { Log } from "./log.ts";
import type { Clock, Timer } from "./time.ts";

/** Runs of one task are at least so far apart, ms, however many events trigger it. */
const GAP_MS_MIN = 1_000;
const REST_SHARE = 5;
/** No rest is longer, ms: the duration of the work may have been that of one answer that was lost. */
const REST_MS_MAX = 30_000;

export interface RestOptions {
  /** The shortest rest between two runs, ms. */
  readonly restMsMin?: number;
  /** Rest after the work when events trigger it all the time, in multiples of its duration. */
  readonly restShare?: number;
  /** The longest such rest, ms. */
  readonly restMsMax?: number;
}

/** How long to rest at least after work that took `tookMs`. */
export function restMs(
  tookMs: number,
  { restMsMin = GAP_MS_MIN, restShare = REST_SHARE, restMsMax = REST_MS_MAX }: RestOptions,
): number {
  return Math.max(restMsMin, Math.min(tookMs * restShare, restMsMax));
}

export interface PeriodicTaskOptions {
  readonly clock: Clock;
  /** May return a promise: it has run when that is settled. */
  readonly work: (signal: AbortSignal) => unknown;
  /** From the end of a run to the next one, ms; absent: it runs only when it is triggered. */
  readonly intervalMs?: number;
  /** From a trigger to the run, ms: changes that come together have one run. */
  readonly settleMs?: number;
  /** How long it rests between two runs, also when it is triggered; absent: not at all. */
  readonly rest?: RestOptions;
  /** From the end of a failed run to the next one, also when it is triggered, ms; absent: like one that succeeded. */
  readonly retryMs?: number;
  /** An instant of the clock when it is to run at the latest, ms; asked after each run. */
  readonly nextMs?: () => number;
  /** See `logFailure`. Absent: the work cannot fail, and ends the process if it does. */
  readonly onFailure?: (error: Error) => void;
  /** It keeps no process running. */
  readonly unref?: boolean;
}

/** What to do about a failure: the next run comes anyway. */
export function logFailure(log: Pick<Log, "warn">, what: string): (error: Error) => void {
  return (error) => log.warn({ err: error }, `${what} did not finish; will retry`);
}

/** Runs one task repeatedly: at every interval, and soon after a trigger; never concurrently. */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #life = new AbortController();
  #isStarted = false;
  #isRunning = false;
  #run: Promise<void> = Promise.resolve();
  #timer: Timer | null = null;
  /** When the next run begins, ms of the clock. */
  #dueMs = Number.POSITIVE_INFINITY;
  /** It rests until then. */
  #restUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
  }

  /** From the end of a run to the next one, ms; undefined: only when triggered. Tests make it an hour for all. */
  get intervalMs(): number | undefined {
    return this.#options.intervalMs;
  }

  /** From now on it runs; one with an interval for the first time `afterMs` from now. */
  start(afterMs = 0): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    if (this.intervalMs !== undefined) this.trigger(afterMs);
    // Also for what was triggered before.
    this.#schedule();
  }

  /** Something has changed: the next run comes soon, or within `afterMs`. Before `start` it is remembered. */
  trigger(afterMs = this.#options.settleMs ?? 0): void {
    const dueMs = this.#options.clock.monotonicMs() + afterMs;
    if (dueMs >= this.#dueMs) return;
    this.#dueMs = dueMs;
    this.#schedule();
  }

  /** Resolves when the run under way, if there is one, has ended. */
  async stop(): Promise<void> {
    this.#life.abort();
    this.#timer?.cancel();
    await this.#run;
  }

  #schedule(): void {
    if (!this.#isStarted || this.#isRunning || this.#life.signal.aborted) return;
    this.#timer?.cancel();
    this.#timer = null;
    const { clock, unref = false } = this.#options;
    const waitMs = Math.max(this.#dueMs, this.#restUntilMs) - clock.monotonicMs();
    if (waitMs === Number.POSITIVE_INFINITY) return;
    this.#timer = clock.timer(waitMs, () => {
      this.#run = this.#runOnce();
    });
    if (unref) this.#timer.unref();
  }

  async #runOnce(): Promise<void> {
    const { clock, work, rest, retryMs = 0, nextMs, onFailure } = this.#options;
    this.#isRunning = true;
    this.#dueMs = Number.POSITIVE_INFINITY;
    const startMs = clock.monotonicMs();
    let pauseMs = 0;
    try {
      await work(this.#life.signal);
    } catch (error) {
      if (onFailure === undefined) throw error;
      onFailure(error as Error);
      pauseMs = retryMs;
    }
    const nowMs = clock.monotonicMs();
    this.#restUntilMs = nowMs + Math.max(pauseMs, rest === undefined ? 0 : restMs(nowMs - startMs, rest));
    const lastMs = pauseMs > 0 ? this.#restUntilMs : nowMs + (this.intervalMs ?? Number.POSITIVE_INFINITY);
    this.#dueMs = Math.min(this.#dueMs, lastMs, nextMs?.() ?? Number.POSITIVE_INFINITY);
    this.#isRunning = false;
    this.#schedule();
  }
}
