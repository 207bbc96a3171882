import type { Log } from "../platform/log.ts";
import { type Clock, sleep } from "../platform/time.ts";

/** Runs of one task are at least so far apart, ms, however many events trigger it. */
const GAP_MS_MIN = 1_000;
/** Rest after the work when events trigger it all the time, in multiples of its duration. */
const REST_SHARE = 5;
/** No rest is longer, ms: the duration of the work may have been that of one answer that was lost. */
const REST_MS_MAX = 30_000;

export interface RestOptions {
  /** Rest after the work when events trigger it all the time, in multiples of its duration. */
  readonly restShare?: number;
  /** The longest such rest, ms. */
  readonly restMsMax?: number;
}

/** How long to rest at least after work that took `tookMs`. */
export function restMs(
  tookMs: number,
  { restShare = REST_SHARE, restMsMax = REST_MS_MAX }: RestOptions,
): number {
  return Math.max(GAP_MS_MIN, Math.min(tookMs * restShare, restMsMax));
}

export interface PeriodicTaskOptions {
  readonly clock: Clock;
  /** Name of the task in the log line of a failure. */
  readonly what: string;
  readonly intervalMs: number;
  readonly work: (signal: AbortSignal) => Promise<void>;
  readonly log: Pick<Log, "warn">;
  readonly rest?: RestOptions;
  /** An instant of the clock when it is to run at the latest, ms; asked after each run. */
  readonly nextMs?: () => number;
}

/** Runs one task repeatedly: at every interval, and soon after a trigger; never concurrently. */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #life = new AbortController();
  #loop: Promise<void> | null = null;
  #triggered = false;
  #wake: (() => void) | null = null;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Something has changed: the next run comes soon. */
  trigger(): void {
    this.#triggered = true;
    this.#wake?.();
  }

  async stop(): Promise<void> {
    this.#life.abort();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { clock, what, intervalMs, work, log, rest = {} } = this.#options;
    const { signal } = this.#life;
    while (!signal.aborted) {
      this.#triggered = false;
      const startMs = clock.monotonicMs();
      try {
        await work(signal);
      } catch (error) {
        log.warn({ err: error as Error }, `${what} did not finish; it comes again`);
      }
      const tookMs = clock.monotonicMs() - startMs;
      const gapMs = restMs(tookMs, rest);
      await sleep(clock, gapMs, signal);
      const nextMs = Math.min(
        startMs + tookMs + intervalMs,
        this.#options.nextMs?.() ?? Number.POSITIVE_INFINITY,
      );
      const waitMs = nextMs - clock.monotonicMs();
      if (!signal.aborted && !this.#triggered && waitMs > 0) await this.#wait(waitMs);
    }
  }

  async #wait(ms: number): Promise<void> {
    const rest = new AbortController();
    const wake = () => rest.abort();
    this.#wake = wake;
    this.#life.signal.addEventListener("abort", wake);
    await sleep(this.#options.clock, ms, rest.signal);
    this.#life.signal.removeEventListener("abort", wake);
    this.#wake = null;
  }
}
