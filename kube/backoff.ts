/** Growing waits between attempts, with jitter, so that many clients do not come back in step. */
export class Backoff {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #random: () => number;
  #nextMs: number;

  /** The first wait is at most `minMs`, none is longer than `maxMs`; `random` gives [0, 1). */
  constructor(minMs: number, maxMs: number, random: () => number = Math.random) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#random = random;
    this.#nextMs = minMs;
  }

  /** How long to wait now, ms: between half of the step and all of it. The step doubles each time. */
  next(): number {
    const step = this.#nextMs;
    this.#nextMs = Math.min(step * 2, this.#maxMs);
    return step * (0.5 + this.#random() / 2);
  }

  /** After a success. */
  reset(): void {
    this.#nextMs = this.#minMs;
  }
}

/** Waits; ends early, without an error, when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.max(0, ms));
    signal?.addEventListener("abort", done);
  });
}
