import { fstatSync } from "node:fs";
import pino from "pino";
import { BoundedMap } from "./bounded-map.ts";
import { type Clock, isoTimeMs } from "./time.ts";

/** Priorities of syslog, by pino's levels in steps of ten: debug, info, warn, error, fatal. */
const PRIORITY: Readonly<Record<string, number>> = { 20: 7, 30: 6, 40: 4, 50: 3, 60: 2 };

export interface Log {
  readonly debug: WriteLine;
  readonly info: WriteLine;
  readonly warn: WriteLine;
  readonly error: WriteLine;
}

interface WriteLine {
  (message: string): void;
  (fields: object, message: string): void;
}

/** A JSON line per message on stdout; in the journal, its priority in front (sd-daemon(3)): `journalctl -p warning`. */
export function makeLog(level: string, clock: Clock): pino.Logger {
  const timestamp = () => `,"time":"${isoTimeMs(clock.wallMs())}"`;
  const options = { level, base: null, timestamp };
  return isJournal(process.env.JOURNAL_STREAM, 1) ? pino(options, journal()) : pino(options);
}

function journal(): pino.DestinationStream {
  const stdout = pino.destination(1);
  return { write: (line) => stdout.write(withPriority(line)) };
}

/** pino writes the level first. */
export function withPriority(line: string): string {
  const level = /^\{"level":(\d+)/.exec(line)?.[1] ?? "";
  return `<${PRIORITY[level] ?? 6}>${line}`;
}

/** systemd.exec(5): `JOURNAL_STREAM` has device and inode of the journal's stream, which may no longer be stdout. */
export function isJournal(stream: string | undefined, fd: number): boolean {
  if (stream === undefined) return false;
  try {
    const { dev, ino } = fstatSync(fd);
    return stream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** Pause between two lines about the same, ms: guests must not be able to fill a disk. */
const SAME_AGAIN_MS = 60_000;
/** Distinct lines remembered; beyond that the oldest is forgotten and may be logged again. */
const REMEMBERED_MAX = 1_000;

type Fields = Readonly<Record<string, string>>;

/** Warnings about guests and backends, each at most once a minute with the number of suppressed ones. */
export class QuietLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #said = new BoundedMap<string, { atMs: number; leftOut: number }>(REMEMBERED_MAX);

  constructor(log: Log, clock: Pick<Clock, "monotonicMs">) {
    this.#log = log;
    this.#clock = clock;
  }

  /** The same: message and `subject`, which must not come from a guest. `details` are those of the logged one. */
  warn(subject: Fields, message: string, details: Fields = {}): void {
    const key = `${message}\0${Object.values(subject).join("\0")}`;
    const nowMs = this.#clock.monotonicMs();
    const before = this.#said.get(key);
    if (before && nowMs - before.atMs < SAME_AGAIN_MS) {
      before.leftOut += 1;
      return;
    }
    this.#said.set(key, { atMs: nowMs, leftOut: 0 });
    const leftOut = before?.leftOut ?? 0;
    this.#log.warn({ ...subject, ...details, ...(leftOut > 0 ? { leftOut } : {}) }, message);
  }
}
