/** Time, as the one port through which production code and tests read it. */
export interface Clock {
  /** Milliseconds of a clock that never jumps. Every duration, rest and deadline is measured on it. */
  monotonicMs(): number;
  /** Milliseconds since the epoch. For people to read (history, `since`); it never decides anything. */
  wallMs(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
};
