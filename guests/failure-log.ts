import type { Log } from "../platform/log.ts";
import type { Clock, Timer } from "../platform/time.ts";
import type { FailedPort } from "./ports/wire.ts";

/** Until a failure is logged, ms: a guest's link goes before its DEL is heard of, and comes after its ADD is. */
const TOLD_AFTER_MS = 3_000;

interface Failure {
  readonly sinceMs: number;
  told: string | null;
}

/** Tells the operator which guests are not served: each once, unless the reason changes. */
export class FailureLog {
  readonly #log: Pick<Log, "warn">;
  readonly #clock: Clock;
  readonly #failed: () => readonly FailedPort[];
  #failures = new Map<string, Failure>();
  #timer: Timer | null = null;

  constructor(log: Pick<Log, "warn">, clock: Clock, failed: () => readonly FailedPort[]) {
    this.#log = log;
    this.#clock = clock;
    this.#failed = failed;
  }

  /** Logs what has failed for a while, and looks again by itself at what has not. */
  look(): void {
    this.#timer?.cancel();
    this.#timer = null;
    const nowMs = this.#clock.monotonicMs();
    const failures = new Map<string, Failure>();
    let waitMs = Number.POSITIVE_INFINITY;
    for (const { containerId, interface: name, kind, problem } of this.#failed()) {
      const key = `${containerId} ${name}`;
      const failure = this.#failures.get(key) ?? { sinceMs: nowMs, told: null };
      failures.set(key, failure);
      const leftMs = kind === "final" ? 0 : failure.sinceMs + TOLD_AFTER_MS - nowMs;
      if (leftMs > 0) waitMs = Math.min(waitMs, leftMs);
      else if (failure.told !== problem) {
        failure.told = problem;
        this.#log.warn({ containerId, interface: name, kind, problem }, "a guest gets no metadata");
      }
    }
    this.#failures = failures;
    if (failures.size > 0 && Number.isFinite(waitMs)) this.#timer = this.#clock.timer(waitMs, () => this.look());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}
