import { fstatSync } from "node:fs";
import pino from "pino";

/** Priorities of syslog, by pino's levels in steps of ten: debug, info, warn, error, fatal. */
const PRIORITY: Readonly<Record<string, number>> = { 20: 7, 30: 6, 40: 4, 50: 3, 60: 2 };

/**
 * One JSON line for each message on stdout. Where stdout is the journal's, each line carries its priority in front
 * (sd-daemon(3)), which the journal takes off again: `journalctl -p warning` shows warnings.
 */
export function makeLog(level: string): pino.Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
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

/** systemd.exec(5): `JOURNAL_STREAM` names device and inode of the journal's stream, which stdout need not be any more. */
export function isJournal(stream: string | undefined, fd: number): boolean {
  if (stream === undefined) return false;
  try {
    const { dev, ino } = fstatSync(fd);
    return stream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}
