import type { AddressState } from "./states.ts";

/** Milliseconds since 1970. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

/** A period of an address's past. Times are milliseconds since 1970. */
export interface TimePeriod {
  /** null: not known; before everything else. */
  readonly from: number | null;
  /** null: it has not ended. */
  readonly until: number | null;
  /** Who had it: periods of one lane are drawn in one row. */
  readonly lane: string;
  readonly label: string;
  /** null: it has not ended, or nobody recorded why. */
  readonly endedBy: string | null;
  /** In use, where it is absent. */
  readonly state?: AddressState;
}

export interface TimeBar {
  /** Of the period in the list. */
  readonly index: number;
  /** Of the lane in `lanes`. */
  readonly lane: number;
  /** In pixels, as the width. */
  readonly x: number;
  readonly width: number;
  /** It began before the window, or nobody knows when. */
  readonly startsBefore: boolean;
  /** It has not ended, or ends after the window. */
  readonly endsAfter: boolean;
}

interface TimeTick {
  /** In pixels. */
  readonly x: number;
  readonly label: string;
}

export interface TimeLine {
  readonly lanes: readonly string[];
  readonly bars: readonly TimeBar[];
  readonly ticks: readonly TimeTick[];
}

/** A pod that lived for seconds can still be pointed at. */
const BAR_MIN_PX = 4;
/** What began a moment ago is a bar, and not a blip at the end of hours. */
const WINDOW_MIN_MS = 2 * 60_000;
/** Part of the window that stays empty before the first period. */
const MARGIN = 0.05;

/**
 * Lanes are in the order in which they begin; two that overlap in time (a migration) overlap in x. Periods outside the
 * window are left out. `utcOffsetMs`: how far the shown time is ahead of UTC.
 */
export function timeLine(input: {
  readonly periods: readonly TimePeriod[];
  readonly window: TimeWindow;
  readonly widthPx: number;
  readonly utcOffsetMs?: number;
}): TimeLine {
  const { periods, window, widthPx, utcOffsetMs = 0 } = input;
  const scale = widthPx / (window.to - window.from);
  const shown = periods
    .map((period, index) => ({
      period,
      index,
      from: period.from ?? -Infinity,
      until: period.until ?? Infinity,
    }))
    .filter(({ from, until }) => from <= window.to && until >= window.from)
    // Two of -Infinity have no difference.
    .sort((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : a.index - b.index));
  const lanes = [...new Set(shown.map(({ period }) => period.lane))];
  const bars = shown.map(({ period, index, from, until }) => {
    const left = (Math.max(from, window.from) - window.from) * scale;
    const right = (Math.min(until, window.to) - window.from) * scale;
    const width = Math.min(widthPx, Math.max(BAR_MIN_PX, right - left));
    const x = Math.min(left, widthPx - width);
    const lane = lanes.indexOf(period.lane);
    return { index, lane, x, width, startsBefore: from < window.from, endsAfter: until > window.to };
  });
  return { lanes, bars, ticks: timeTicks(window, widthPx, utcOffsetMs) };
}

/** The window that shows all of the periods up to now, of two minutes at least. */
export function windowOf(periods: readonly TimePeriod[], nowMs: number): TimeWindow {
  const known = periods.flatMap(({ from, until }) => [from, until]).filter((ms) => ms !== null);
  const earliest = known.reduce((least, ms) => Math.min(least, ms), nowMs);
  const lengthMs = Math.max(WINDOW_MIN_MS, (nowMs - earliest) * (1 + MARGIN));
  return { from: nowMs - lengthMs, to: nowMs };
}

/** A period in a sentence: "pod default/vm1: 2026-03-12 14:00:05 to 2026-03-12 15:00:00, ended by DEL". */
export function periodTitle({ from, until, label, endedBy }: TimePeriod, utcOffsetMs = 0): string {
  const start = from === null ? "" : formatTime(from, utcOffsetMs);
  const end = until === null ? "" : formatTime(until, utcOffsetMs);
  const times =
    end === ""
      ? `${start === "" ? "" : `since ${start}, `}not ended`
      : start === ""
        ? `until ${end}`
        : `${start} to ${end}`;
  return `${label}: ${times}${endedBy === null || until === null ? "" : `, ended by ${endedBy}`}`;
}

/** Swedes write dates as ISO 8601 does. */
function formatTime(ms: number, utcOffsetMs: number): string {
  const format = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium", timeZone: "UTC" });
  return format.format(ms + utcOffsetMs);
}

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
/** People count time in these. */
const STEPS_MS = [
  ...[1, 5, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 3, 6, 12].map((hours) => hours * HOUR_MS),
  ...[1, 2, 7, 14, 28, 91, 364].map((days) => days * DAY_MS),
];
/** 1970 began on a Thursday; weeks begin on the Monday after it. */
const FIRST_MONDAY_MS = 4 * DAY_MS;
/** Room for "12 Mar 2026" and a space beside it. */
const TICK_MIN_PX = 84;

/** Ticks at whole minutes, hours, days or weeks of the shown time, as close together as their labels allow. */
function timeTicks(window: TimeWindow, widthPx: number, utcOffsetMs: number): TimeTick[] {
  const scale = widthPx / (window.to - window.from);
  // Beyond the table: years and years.
  const longest = STEPS_MS.at(-1) ?? DAY_MS;
  const step =
    STEPS_MS.find((ms) => ms * scale >= TICK_MIN_PX) ?? longest * Math.max(1, Math.ceil(TICK_MIN_PX / scale / longest));
  if (!Number.isFinite(step)) return [];
  const anchor = step >= 7 * DAY_MS ? FIRST_MONDAY_MS : 0;
  const ticks: TimeTick[] = [];
  const from = window.from + utcOffsetMs;
  const first = Math.ceil((from - anchor) / step) * step + anchor;
  for (let ms = first; ms <= window.to + utcOffsetMs; ms += step)
    ticks.push({ x: (ms - from) * scale, label: tickLabel(ms, step) });
  return ticks;
}

/** "14:00"; at midnight "12 Mar"; of a window of many months "12 Mar 2026". `ms` is shifted to the shown time. */
function tickLabel(ms: number, step: number): string {
  const options: Intl.DateTimeFormatOptions =
    ms % DAY_MS === 0 ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" };
  if (step >= 28 * DAY_MS) options.year = "numeric";
  return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }).format(ms);
}
