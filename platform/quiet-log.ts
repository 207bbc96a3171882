import type { Logger } from "pino";
import type { Clock } from "./time.ts";

/** Between two lines about the same, ms: what guests can cause does not fill a disk. */
const SAME_AGAIN_MS = 60_000;
/** Different lines remembered; beyond it all are forgotten and may be said again. */
const REMEMBERED_MAX = 1_000;

type Fields = Readonly<Record<string, string>>;

/** Warnings about what guests and backends cause, each at most once in a minute with the number of those left out. */
export class QuietLog {
  readonly #log: Logger;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #said = new Map<string, { atMs: number; leftOut: number }>();

  constructor(log: Logger, clock: Pick<Clock, "monotonicMs">) {
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * Lines that agree in message and `subject` are the same; a guest must not be able to make up a subject. `details` are those
   * of the one that is written.
   */
  warn(subject: Fields, message: string, details: Fields = {}): void {
    const key = `${message}\0${Object.values(subject).join("\0")}`;
    const nowMs = this.#clock.monotonicMs();
    const before = this.#said.get(key);
    if (before && nowMs - before.atMs < SAME_AGAIN_MS) {
      before.leftOut += 1;
      return;
    }
    if (this.#said.size >= REMEMBERED_MAX) this.#said.clear();
    this.#said.set(key, { atMs: nowMs, leftOut: 0 });
    const leftOut = before?.leftOut ?? 0;
    this.#log.warn({ ...subject, ...details, ...(leftOut > 0 ? { leftOut } : {}) }, message);
  }
}
