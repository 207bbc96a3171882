import type { Cache, CachedAllocation } from "../claims/reasons/caches.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { ALLOCATIONS_PATH, NO_MANAGED_FIELDS, objectPath } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import { severalAtOnce } from "../platform/several-at-once.ts";
import { parseTime } from "../platform/time.ts";

/** An allocation that is older, ms, stays: most pods end sooner, and their release writes it anyway. */
const AGE_MS_MIN = 3_600_000;
/** Written in one pass, so that a cluster that has just been imported is no burst. */
const WRITTEN_PER_PASS = 600;
const WRITTEN_AT_ONCE = 4;

export interface LeanAllocationsOptions {
  readonly api: KubeApi;
  readonly allocations: Pick<Cache<CachedAllocation>, "known" | "items">;
  readonly serverMs: () => number;
  readonly idle: () => string | null;
}

/**
 * Takes the record of who has written which field from allocations that stay: half of their bytes, which each API
 * server holds several times. A create cannot leave it out; every later write of ours does (AllocationClient).
 */
export class LeanAllocations {
  readonly #options: LeanAllocationsOptions;

  constructor(options: LeanAllocationsOptions) {
    this.#options = options;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { api, allocations, serverMs, idle } = this.#options;
    if (!allocations.known || idle() !== null) return;
    const budget = new TurnBudget(api.clock);
    const bornBeforeMs = serverMs() - AGE_MS_MIN;
    const due: CachedAllocation[] = [];
    for (const one of allocations.items.values()) {
      if (budget.isSpent) await budget.nextTurn();
      if (one.recordsFields && parseTime(one.object.metadata.creationTimestamp ?? "") < bornBeforeMs) due.push(one);
      if (due.length === WRITTEN_PER_PASS) break;
    }
    const objects = new ObjectClient(api);
    await severalAtOnce(due, WRITTEN_AT_ONCE, async ({ key, resourceVersion }) => {
      if (signal.aborted || idle() !== null) return;
      // A conflict, or a refusal, is left to the next pass.
      const body = { metadata: { resourceVersion, ...NO_MANAGED_FIELDS } };
      await objects.patch(objectPath(ALLOCATIONS_PATH, key), body);
    });
  }
}
