import { BoundedMap } from "../../platform/bounded-map.ts";

/** More pods than end while an address waits for its release; the address of a forgotten one is kept. */
const REMEMBERED_MAX = 20_000;

/** Unlike pods deleted by force. In memory only: who has not seen a pod's end knows nothing of its containers. */
export class StoppedPods {
  readonly #uids = new BoundedMap<string, true>(REMEMBERED_MAX);

  /** A pod is gone; `stopped` is the state in its last version. */
  noteGone({ uid, stopped }: { readonly uid: string; readonly stopped: boolean }): void {
    if (stopped) this.#uids.set(uid, true);
  }

  has(uid: string): boolean {
    return this.#uids.has(uid);
  }
}
