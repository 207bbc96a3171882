import type { Clock } from "../../platform/time.ts";
import { portKey } from "./wanted-state.ts";
import type { FailedPort, PortReport } from "./wire.ts";

/** metadata-net repeats its request at once; silent for longer, it counts as away and its reports as void, ms. */
const SILENT_MS_MAX = 10_000;

/** What metadata-net says of one port; null: nothing yet. */
export type PortState = { readonly kind: "up" } | Pick<FailedPort, "kind" | "problem"> | null;

/** The last report of `holdfast metadata-net`. */
export class PortReports {
  readonly #clock: Clock;
  #applied = -1;
  #failed: readonly FailedPort[] = [];
  #byKey: ReadonlyMap<string, FailedPort> = new Map();
  #problem: string | null = null;
  #polls = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `applied`: the number of the state that was carried out; -1: none of this run. */
  take({ failed, problem }: PortReport, applied: number): void {
    this.#applied = applied;
    this.#failed = failed;
    this.#byKey = new Map(failed.map((one) => [portKey(one), one]));
    this.#problem = problem;
  }

  pollBegins(): void {
    this.#polls += 1;
  }

  pollEnds(): void {
    this.#polls -= 1;
    this.#lastMs = this.#clock.monotonicMs();
  }

  /** The report for a port, once the state with that number was applied: an earlier one may lack the port. */
  stateOf(key: string, number: number): PortState {
    if (this.#applied < number) return null;
    const failed = this.#byKey.get(key);
    if (failed !== undefined) return { kind: failed.kind, problem: failed.problem };
    return this.#problem === null ? { kind: "up" } : { kind: "pending", problem: this.#problem };
  }

  /** Number of the state that was carried out last; -1: none of this run. */
  get applied(): number {
    return this.#applied;
  }

  /** Whether metadata-net is away. */
  get away(): boolean {
    return this.#polls === 0 && this.#clock.monotonicMs() - this.#lastMs > SILENT_MS_MAX;
  }

  /** Why no guest is served at all; null: nothing is known to be wrong. */
  get problem(): string | null {
    return this.away ? null : this.#problem;
  }

  get failed(): readonly FailedPort[] {
    return this.away ? [] : this.#failed;
  }
}
