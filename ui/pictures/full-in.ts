import { HOUR_MS } from "./time-line.ts";
export interface HeldPeriod {
  /** null: before anything that is recorded. */
  readonly fromMs: number | null;
  /** null: it still is. */
  readonly untilMs: number | null;
}

/** A whole day, so that machines that start in the morning and stop in the evening are no growth. */
const OBSERVED_MS = 24 * HOUR_MS;
/** The first minutes of a network say nothing: everything starts at once. */
const OBSERVED_MIN_MS = HOUR_MS;

/**
 * In how many milliseconds the network is full, if it goes on growing as in the last 24 hours. `periods` are those that
 * were not over 24 hours ago. null: it does not grow, or less than an hour of it is known.
 */
export function fullInMs(network: {
  readonly held: number;
  readonly free: bigint;
  readonly periods: readonly HeldPeriod[];
  readonly nowMs: number;
}): number | null {
  const { held, free, periods, nowMs } = network;
  const starts = periods.flatMap(({ fromMs }) => (fromMs === null ? [] : [fromMs]));
  const earliestMs = starts.reduce((earliest, ms) => Math.min(earliest, ms), nowMs);
  const sinceMs = Math.max(earliestMs, nowMs - OBSERVED_MS);
  const observedMs = nowMs - sinceMs;
  if (observedMs < OBSERVED_MIN_MS) return null;
  const within = (ms: number | null) => ms !== null && ms >= sinceMs && ms <= nowMs;
  const began = periods.filter(({ fromMs }) => within(fromMs)).length;
  const ended = periods.filter(({ untilMs }) => within(untilMs)).length;
  // No more can have been added than there are: whoever moves between pods begins more periods than addresses.
  const growth = Math.min(held, began - ended);
  return growth > 0 ? (Number(free) * observedMs) / growth : null;
}
