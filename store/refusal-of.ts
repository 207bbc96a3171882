import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { ApiAway } from "../kube/kube-api.ts";
import { isStorageError, StorageAway, StorageFault } from "./allocations.ts";

/** The refusal that an error means to a caller. An unexpected error is a fault of ours and is reported as such. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof RefusalError) return error.refusal;
  if (error instanceof StorageAway) return refuse("NOT_READY", { reason: error.message });
  if (error instanceof ApiAway) return refuse("API_AWAY", { problem: error.message });
  if (error instanceof StorageFault) return refuse("STORAGE_FAILED", { problem: error.message });
  // Met by a read before the daemon has looked at the file: then it is put aside, and the reason is a StorageAway.
  if (isStorageError(error))
    return refuse("NOT_READY", { reason: `the state database cannot be read: ${(error as Error).message}` });
  return refuse("INTERNAL_ERROR", { problem: String((error as Error)?.message ?? error) });
}
