import { Continuity } from "../../store/cluster/allocations/continuity.ts";

/** Of an API server that keeps what it has. */
export function steadyContinuity(): Continuity {
  return new Continuity({
    settleMs: 0,
    recoveryMs: 0,
    monotonicMs: () => performance.now(),
    look: async () => {},
    mark: async () => {},
    onWentBack: () => {},
  });
}
