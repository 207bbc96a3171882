import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { Clock } from "../../platform/time.ts";
import type { AttachWant } from "../allocations.ts";
import type { HostLocalTakeover } from "../host-local/takeover.ts";

/** Records host-local's addresses before an ADD. Resolves with why they cannot be recorded; null: they are. */
export async function takeOverFirst(
  hostLocal: HostLocalTakeover,
  clock: Clock,
  want: Pick<AttachWant, "network" | "definition">,
  deadlineMs: number,
): Promise<Refusal | null> {
  try {
    const work = hostLocal.ensure(want.definition);
    if (work === null) return null;
    return await new Promise<Refusal | null>((resolve, reject) => {
      const reason = `addresses that host-local gave on network ${want.network} are still being recorded`;
      const late = () => resolve(refuse("NOT_READY", { reason }));
      const timer = clock.timer(deadlineMs - clock.monotonicMs(), late);
      work.then(() => resolve(null), reject).finally(() => timer.cancel());
    });
  } catch (error) {
    return refusalOf(error);
  }
}

/** Checks the folders that were read before. When the API server is away, it is retried later. */
export async function followLeases(hostLocal: HostLocalTakeover): Promise<void> {
  try {
    await hostLocal.follow();
  } catch (error) {
    if (!(error instanceof ApiAway)) throw error;
  }
}

/** Rethrows everything but a refusal and an API server that is away. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof RefusalError) return error.refusal;
  if (error instanceof ApiAway) return refuse("API_AWAY", { problem: error.message });
  throw error;
}
