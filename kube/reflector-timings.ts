export const TIMINGS = {
  /** How long a watch may last, seconds: different for each, so that the server's clients do not all come back at once. */
  watchSecondsMin: 290,
  watchSecondsMax: 590,
  /** Without an event or bookmark for so long, ms, a watch counts as dead: bookmarks come about once a minute. */
  stallMs: 150_000,
  /** How often to look whether a definition that is missing has been installed, ms. */
  missingMs: 10_000,
  /** How often to look whether a right that is missing has been given, ms, when nobody asks. */
  forbiddenMs: 60_000,
  retryMsMin: 500,
  retryMsMax: 30_000,
  /** Before the first complete list, ms: until then whoever needs it can do nothing at all. */
  firstRetryMsMax: 5_000,
  /** A watch that ends without an event sooner than this, ms, was no use. */
  quickMs: 1_000,
};

/** Timings of a reflector: seconds and ms as their names say. */
export type ReflectorTimings = typeof TIMINGS;
