import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { Clock } from "../../platform/time.ts";
import type { AttachWant } from "../allocations.ts";
import type { HostLocalTakeover } from "../host-local/takeover.ts";

/** What host-local gave on this node comes before every ADD. Resolves with why it is not recorded; null: it is. */
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

/** Looks at the folders that were read before. An API server that is away is waited for: it comes again. */
export async function followLeases(hostLocal: HostLocalTakeover): Promise<void> {
  try {
    await hostLocal.follow();
  } catch (error) {
    if (!(error instanceof ApiAway)) throw error;
  }
}

/** Throws what is neither a refusal nor an API server that is away. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof RefusalError) return error.refusal;
  if (error instanceof ApiAway) return refuse("API_AWAY", { problem: error.message });
  throw error;
}
