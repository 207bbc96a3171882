import type { Clock } from "../../platform/time.ts";
import type { ListenerReport, ListenerState } from "./wire.ts";

/** metadata-net repeats its request at once; silent for longer, it counts as away and its reports as void. */
const SILENT_MS_MAX = 10_000;

/** The outcome of waiting for a listener. */
export type WaitOutcome = "up" | "late" | "failed";

/** The last report of `holdfast metadata-net`. */
export class ListenerReports {
  readonly waits: Record<WaitOutcome, number> = { up: 0, late: 0, failed: 0 };
  readonly #clock: Clock;
  #applied = -1;
  #states: ReadonlyMap<string, ListenerState> = new Map();
  #polls = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `applied`: the number of the state that was carried out; -1: none of this run. */
  take(report: ListenerReport, applied: number): void {
    this.#applied = applied;
    this.#states = new Map(report.listeners.map((one) => [one.network, one]));
  }

  pollBegins(): void {
    this.#polls += 1;
  }

  pollEnds(): void {
    this.#polls -= 1;
    this.#lastMs = this.#clock.monotonicMs();
  }

  /** The report for a network, once the state with that number was applied: an earlier one may lack it. */
  stateOf(network: string, number: number): ListenerState | null {
    return this.#applied >= number ? (this.#states.get(network) ?? null) : null;
  }

  /** Whether metadata-net is away. */
  get away(): boolean {
    return this.#polls === 0 && this.#clock.monotonicMs() - this.#lastMs > SILENT_MS_MAX;
  }

  get failed(): readonly ListenerState[] {
    return this.#known.filter(({ state }) => state === "failed");
  }

  counts(): { readonly up: number; readonly failed: number } {
    const failed = this.failed.length;
    return { up: this.#known.length - failed, failed };
  }

  get #known(): readonly ListenerState[] {
    return this.away ? [] : [...this.#states.values()];
  }
}
