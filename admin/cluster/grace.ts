import { parseTime } from "../../platform/time.ts";

/**
 * The minimum age of a finding: younger ones may be about to resolve themselves. No fault is older than the object that
 * has it; where the object may be far older than its fault, check watches it as well.
 */
export class Grace {
  readonly #nowMs: number;
  readonly #seconds: number;

  constructor(nowMs: number, seconds: number) {
    this.#nowMs = nowMs;
    this.#seconds = seconds;
  }

  /** The wall clock, ms since the epoch. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /**
   * Since a time (RFC 3339). An unreadable one is long ago, and so is one further ahead than the grace: it is of a node
   * whose clock was wrong, and waiting for it could hide a finding for years.
   */
  isOver(since: string | null | undefined): boolean {
    const sinceMs = parseTime(since ?? "");
    return Number.isNaN(sinceMs) || Math.abs(this.#nowMs - sinceMs) >= this.#seconds * 1_000;
  }
}
