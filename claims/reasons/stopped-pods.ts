import { BoundedMap } from "../../platform/bounded-map.ts";

/** More pods than end while an address waits for its release; of an older one the evidence is lost, and its address is held. */
const REMEMBERED_MAX = 20_000;

/**
 * Pods that are gone, and that were seen with all their containers ended before: a pod that was deleted by force was not. Kept in
 * memory only: whoever has not seen a pod to its end knows nothing of its containers.
 */
export class StoppedPods {
  readonly #uids = new BoundedMap<string, true>(REMEMBERED_MAX);

  /** A pod is gone; `stopped` as its last version said. */
  noteGone({ uid, stopped }: { readonly uid: string; readonly stopped: boolean }): void {
    if (stopped) this.#uids.set(uid, true);
  }

  has(uid: string): boolean {
    return this.#uids.has(uid);
  }
}
