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
  /** Why a pass does nothing now; null: it works. */
  readonly idle: () => string | null;
  /** Whether the last pass has found something to be looked at again soon, by what the copies do not show. */
  readonly waits?: () => boolean;
}

/** A part whose work is a pass over everything, which is left out while nothing has changed. */
export function quietPart(
  part: ControllerPart,
  { clock, revision, idle, waits }: QuietPartOptions,
): ControllerPart {
  let seen: number | null = null;
  let passes = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  return {
    ...part,
    work: async (signal) => {
      const current = revision();
      if (current !== seen || waits?.() === true) passes = 0;
      seen = current;
      const startMs = clock.monotonicMs();
      if (passes >= PASSES_AFTER_CHANGE && startMs - lastMs < part.everyMs * QUIET_INTERVALS) return;
      await part.work(signal);
      if (idle() !== null) return;
      passes += 1;
      lastMs = startMs;
    },
  };
}
