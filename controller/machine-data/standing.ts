/** A pass that begins later than this after the last one does not continue its observations, ms. */
const GAP_MS_MAX = 30_000;

/** How long something was seen without a gap, monotonic: it counts when two passes saw it, for long enough. */
export class Standing {
  readonly #graceMs: number;
  readonly #sinceMs = new Map<string, number>();
  #seen = new Set<string>();
  #nowMs = 0;
  #endMs = Number.NEGATIVE_INFINITY;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  beginPass(nowMs: number): void {
    if (nowMs - this.#endMs > Math.max(GAP_MS_MAX, 3 * this.#graceMs)) this.#sinceMs.clear();
    this.#nowMs = nowMs;
    this.#seen = new Set();
  }

  /** Returns whether it has stood for the grace, and was seen by an earlier pass too. */
  see(key: string): boolean {
    this.#seen.add(key);
    const sinceMs = this.#sinceMs.get(key);
    if (sinceMs === undefined) this.#sinceMs.set(key, this.#nowMs);
    return sinceMs !== undefined && this.#nowMs - sinceMs >= this.#graceMs;
  }

  /** Whether the last pass saw something, which counts once another one has seen it for long enough. */
  get isObserving(): boolean {
    return this.#sinceMs.size > 0;
  }

  /** Forgets what this pass did not see. */
  endPass(nowMs: number): void {
    for (const key of this.#sinceMs.keys()) if (!this.#seen.has(key)) this.#sinceMs.delete(key);
    this.#endMs = nowMs;
  }
}
