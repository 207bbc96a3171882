import type { Clock } from "../../platform/time.ts";
import { Continuity } from "../../store/cluster/contact/continuity.ts";

/** Of an API server that keeps what it has. */
export function steadyContinuity(clock: Clock): Continuity {
  return new Continuity({
    settleMs: 0,
    recoveryMs: 0,
    clock,
    readMark: async () => {},
    mark: async () => {},
    onWentBack: () => {},
  });
}
