/** Milliseconds since 1970. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

export interface TimeTick {
  /** In pixels. */
  readonly x: number;
  readonly label: string;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
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
export function timeTicks(window: TimeWindow, widthPx: number, utcOffsetMs: number): TimeTick[] {
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
