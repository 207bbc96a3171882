import { parseTime } from "../../platform/time.ts";

/** How old something must be before it is reported: what is younger may be on its way to be put in order. */
export class Grace {
  readonly #nowMs: number;
  readonly #seconds: number;

  /** `nowMs`: the wall clock of whoever asks, ms since the epoch. */
  constructor(nowMs: number, seconds: number) {
    this.#nowMs = nowMs;
    this.#seconds = seconds;
  }

  /** Since a time (RFC 3339); one that cannot be read is long ago. */
  isOver(since: string | null | undefined): boolean {
    const sinceMs = parseTime(since ?? "");
    return Number.isNaN(sinceMs) || this.#nowMs - sinceMs >= this.#seconds * 1_000;
  }
}
