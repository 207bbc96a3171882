import { isDeepStrictEqual } from "node:util";
import { type Report, Versions } from "../../guests/long-poll.ts";
import { PeriodicTask } from "../../platform/periodic-task.ts";
import type { Clock } from "../../platform/time.ts";

/** After a change, ms: many come together. */
const SOON_MS = 20;
/** Pause after a failure to learn what a network wants, ms. */
const AGAIN_MS = 1_000;
/** Pods may get another address without a change of what is watched, ms. */
const LOOK_MS = 30_000;

export interface FollowedOptions<T> {
  readonly clock: Clock;
  /** Calls back after each change that may be one of `wantedOf`. */
  readonly watch: (changed: () => void) => void;
  /** null: nothing is wanted for it. */
  readonly wantedOf: (network: string) => Promise<T | null>;
  /** Whether that is not known now, and is asked for again soon. */
  readonly isUnknown: (wanted: T) => boolean;
  readonly changed?: (wanted: readonly T[]) => void;
}

/**
 * What is wanted for the networks that metadata-net reports, computed whenever something has changed, for its long
 * polls.
 */
export class FollowedNetworks<T> {
  readonly #options: FollowedOptions<T>;
  readonly #versions: Versions;
  #networks: readonly string[] = [];
  #wanted: readonly T[] = [];
  /** The networks that it is computed for. */
  #computedFor: readonly string[] | null = null;
  readonly #computing: PeriodicTask;

  constructor(options: FollowedOptions<T>) {
    this.#options = options;
    const { clock, watch } = options;
    this.#versions = new Versions(clock);
    this.#computing = new PeriodicTask({
      ...{ clock, settleMs: SOON_MS, intervalMs: LOOK_MS, unref: true },
      work: () => this.#compute(),
    });
    watch(() => this.#networks.length > 0 && this.#computing.trigger());
  }

  start(): void {
    this.#computing.start(LOOK_MS);
  }

  /** Releases all waiters. */
  async stop(): Promise<void> {
    this.#versions.notifier.close();
    await this.#computing.stop();
  }

  /** As computed last. */
  get wanted(): readonly T[] {
    return this.#wanted;
  }

  /**
   * Waits until the wanted state of these networks differs from what was applied. null: it is not known yet, or this
   * server stops.
   */
  async poll(
    report: Report & { readonly networks: readonly string[] },
    hungUp: AbortSignal,
  ): Promise<{ readonly version: string; readonly wanted: readonly T[] } | null> {
    if (!isDeepStrictEqual(report.networks, this.#networks)) {
      this.#networks = [...report.networks];
      this.#computing.trigger(0);
    }
    // What was computed for other networks says nothing of these.
    await this.#versions.untilNews(report, hungUp, () => this.#computedFor === this.#networks);
    if (this.#versions.notifier.closed || this.#computedFor === null) return null;
    return { version: this.#versions.present, wanted: this.#wanted };
  }

  async #compute(): Promise<void> {
    const { wantedOf, isUnknown, changed } = this.#options;
    const networks = this.#networks;
    const found = await Promise.all(networks.map(wantedOf));
    const wanted = found.filter((one) => one !== null);
    if (!isDeepStrictEqual(wanted, this.#wanted)) {
      this.#wanted = wanted;
      this.#versions.number += 1;
      changed?.(wanted);
    }
    this.#computedFor = networks;
    this.#versions.notifier.notify();
    if (wanted.some(isUnknown)) this.#computing.trigger(AGAIN_MS);
  }
}
