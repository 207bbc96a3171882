export const TIMINGS = {
  /** How long a watch may last, seconds: different for each, so that clients do not all reconnect at once. */
  watchSecondsMin: 290,
  watchSecondsMax: 590,
  /** Without an event or bookmark for so long, ms, a watch counts as dead: bookmarks come about once a minute. */
  stallMs: 150_000,
  /** How often to check whether a missing definition has been installed, ms. */
  missingMs: 10_000,
  /** How often to check whether a missing permission has been given, ms, without a request for it. */
  forbiddenMs: 60_000,
  retryMsMin: 500,
  retryMsMax: 30_000,
  /** Before the first complete list, ms: until then nothing that depends on it can work. */
  firstRetryMsMax: 5_000,
  /** A watch that ends without an event sooner than this, ms, was useless. */
  quickMs: 1_000,
  /** For the server to tell the last change again, ms, once a watch that was broken is there again. */
  replayMs: 3_000,
  /** A watch that goes on from what was told longer ago than this, ms, counts as broken: no restore is so quick. */
  freshMs: 5_000,
};

/** Timings of a reflector: seconds and ms as their names say. */
export type ReflectorTimings = typeof TIMINGS;
