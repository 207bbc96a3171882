import { parseTime } from "../../platform/time.ts";

/** The minimum age of a finding: younger ones may be about to resolve themselves. */
export class Grace {
  readonly #nowMs: number;
  readonly #seconds: number;

  /** `nowMs`: the wall clock of the caller, ms since the epoch. */
  constructor(nowMs: number, seconds: number) {
    this.#nowMs = nowMs;
    this.#seconds = seconds;
  }

  /** Since a time (RFC 3339); an unreadable one is long ago. */
  isOver(since: string | null | undefined): boolean {
    const sinceMs = parseTime(since ?? "");
    return Number.isNaN(sinceMs) || this.#nowMs - sinceMs >= this.#seconds * 1_000;
  }
}
