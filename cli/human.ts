import { parseTime } from "../platform/time.ts";

const SECOND_MS = 1_000;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** What lines are sorted by where a column shows ages: the youngest first. */
export function youngestFirst(since: string): string {
  return String(Number.MAX_SAFE_INTEGER - parseTime(since));
}

/** An age as kubectl prints it (`HumanDuration`): two units where the second one still matters. */
export function formatAge(since: string, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - parseTime(since)) / SECOND_MS));
  if (seconds < 2 * MINUTE) return `${seconds}s`;
  if (seconds < 10 * MINUTE) return two(seconds, MINUTE, "m", 1, "s");
  if (seconds < 3 * HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < 8 * HOUR) return two(seconds, HOUR, "h", MINUTE, "m");
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`;
  if (seconds < 8 * DAY) return two(seconds, DAY, "d", HOUR, "h");
  if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`;
  if (seconds < 8 * YEAR) return two(seconds, YEAR, "y", DAY, "d");
  return `${Math.floor(seconds / YEAR)}y`;
}

function two(seconds: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)}${largeUnit}${rest === 0 ? "" : `${rest}${smallUnit}`}`;
}

/** Counts up to all of IPv4 are printed in full; larger ones are not. */
const EXACT_DIGITS_MAX = 10;

/** A count of addresses from its decimal text: `254`, `2^64`, `1.8e19`. */
export function formatCount(text: string): string {
  if (text.length <= EXACT_DIGITS_MAX) return text;
  const bits = BigInt(text).toString(2);
  if (/^10*$/.test(bits)) return `2^${bits.length - 1}`;
  return Number(text).toExponential(1).replace("e+", "e");
}

/** `96 B`, `88 KiB`, `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = value < 10 && unit > 0 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** `1 claim`, `2 claims`, `no claims`. */
export function count(n: number | bigint, one: string): string {
  return `${n === 0 || n === 0n ? "no" : n} ${n === 1 || n === 1n ? one : `${one}s`}`;
}
