import type { Clock } from "../platform/time.ts";
import type { ControllerPart } from "./part.ts";

/** So many passes follow a change: some act on what two of them have seen. */
const PASSES_AFTER_CHANGE = 3;
/** A pass that nothing gives a reason for comes after so many intervals: what was refused or lost is tried again. */
const QUIET_INTERVALS = 6;

interface QuietPartOptions {
  readonly clock: Clock;
  /** Another number after each change of what the passes look at. */
  readonly revision: () => number;
  readonly idle: () => string | null;
  /** Whether the last pass has found something to be looked at again soon, by what the copies do not show. */
  readonly waits?: () => boolean;
}

/** A part whose work is a pass over everything: a change begins a few, and otherwise it comes seldom. */
export function quietPart(part: ControllerPart, { clock, revision, idle, waits }: QuietPartOptions): ControllerPart {
  let seen: number | null = null;
  let passes = 0;
  return {
    ...part,
    quietMs: part.everyMs * QUIET_INTERVALS,
    triggers: [...(part.triggers ?? []), "changed"],
    nextMs: () => {
      const isSettled = passes >= PASSES_AFTER_CHANGE && waits?.() !== true;
      return isSettled ? Number.POSITIVE_INFINITY : clock.monotonicMs() + part.everyMs;
    },
    work: async (signal) => {
      const current = revision();
      if (current !== seen || waits?.() === true) passes = 0;
      seen = current;
      await part.work(signal);
      if (idle() === null) passes += 1;
    },
  };
}
