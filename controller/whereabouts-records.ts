import { AllocationClient } from "../allocations/allocation-client.ts";
import { addressOf, isSound, wasImported } from "../allocations/allocation-object.ts";
import { giveBack } from "../allocations/give-back.ts";
import type { Cache, CachedAllocation } from "../claims/reasons/caches.ts";
import { RefusalError } from "../ipam/refusals.ts";
import { formatAddress } from "../ipam/space/address.ts";
import { type KubeApi, ListRefused } from "../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../kube/object-client.ts";
import { ANNOTATION_IMPORTED_FROM, type IPAllocation, WHEREABOUTS_POOLS_PATH } from "../kube/objects.ts";
import { readPool } from "../kube/views/whereabouts.ts";
import type { Log } from "../platform/log.ts";

/** Between two checks, ms: as often as whereabouts' own clean-up matters. */
const INTERVAL_MS = 30_000;

export interface WhereaboutsRecordsOptions {
  readonly api: KubeApi;
  readonly allocations: Cache<CachedAllocation>;
  /** How long an entry must have been gone. */
  readonly graceSeconds: number;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Releases addresses of containers that were imported from whereabouts, once their IPPool exists without an entry of
 * the container: nothing else shows when such a container has ended. A pool that is gone, or cannot be read, is no
 * evidence.
 */
export class WhereaboutsRecords {
  readonly #options: WhereaboutsRecordsOptions;
  /** Since when an entry has been seen to be gone, by the allocation's UID, ms. */
  #goneMs = new Map<string, number>();
  #checkedMs = Number.NEGATIVE_INFINITY;

  constructor(options: WhereaboutsRecordsOptions) {
    this.#options = options;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { api, allocations, idle, graceSeconds } = this.#options;
    if (idle() !== null || !allocations.known) return;
    const nowMs = api.clock.monotonicMs();
    if (nowMs - this.#checkedMs < Math.min(INTERVAL_MS, graceSeconds * 1_000)) return;
    const ofContainers = [...allocations.items.values()].filter(({ ownerKind }) => ownerKind === "Container");
    const held = ofContainers.filter(({ object }) => isOfRecord(object));
    this.#checkedMs = nowMs;
    if (held.length === 0) return;
    const pools = await this.#readPools();
    const gone = new Map<string, number>();
    for (const { object } of held) {
      if (!isGone(object, pools)) continue;
      const { uid } = object.metadata;
      const sinceMs = this.#goneMs.get(uid) ?? nowMs;
      gone.set(uid, sinceMs);
      if (nowMs - sinceMs < graceSeconds * 1_000) continue;
      if (signal.aborted || idle() !== null) return;
      await this.#release(object);
    }
    this.#goneMs = gone;
  }

  /** `address containerId` of the entries of every readable pool, by `namespace/name`. */
  async #readPools(): Promise<Map<string, Set<string>>> {
    const pools = new Map<string, Set<string>>();
    try {
      await this.#options.api.list({
        path: WHEREABOUTS_POOLS_PATH,
        each: (object) => {
          const pool = readPool(object);
          if (typeof pool === "string") return;
          const entries = pool.entries.map((one) => keyOf(formatAddress(one.address), one.containerId));
          pools.set(pool.key, new Set(entries));
        },
        restarted: () => pools.clear(),
      });
    } catch (error) {
      if (!(error instanceof ListRefused)) throw error;
      this.#options.log.warn({ problem: error.message }, "whereabouts' pools cannot be read; what they hold is kept");
    }
    return pools;
  }

  async #release(seen: IPAllocation): Promise<void> {
    const { api, log } = this.#options;
    const { network, address, owner } = seen.spec;
    try {
      const outcome = await giveBack<"used">(
        new AllocationClient(api, "housekeeping"),
        seen.metadata,
        ({ object }) => (isOfRecord(object) ? { kind: "cool" } : { kind: "leave", why: "used" }),
        api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS,
      );
      if (outcome.kind === "done") log.info({ network, address, owner }, "released: whereabouts has let it go");
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      log.warn({ network, address, owner, problem: error.message }, "not released; will retry");
    }
  }
}

/** Whether only another system's record shows that the address is in use. */
function isOfRecord(object: IPAllocation): boolean {
  return (
    wasImported(object) &&
    object.spec.owner?.kind === "Container" &&
    object.status?.state === "Bound" &&
    Object.keys(object.status.attachments ?? {}).length === 0 &&
    isSound(object)
  );
}

/** The pool exists, and no pool has the entry. */
function isGone(object: IPAllocation, pools: ReadonlyMap<string, ReadonlySet<string>>): boolean {
  const pool = object.metadata.annotations?.[ANNOTATION_IMPORTED_FROM]?.replace(/^IPPool /, "") ?? "";
  const uid = object.spec.owner.uid === "unknown" ? "" : object.spec.owner.uid;
  const key = keyOf(formatAddress(addressOf(object)), uid);
  return pools.has(pool) && ![...pools.values()].some((entries) => entries.has(key));
}

function keyOf(address: string, containerId: string): string {
  return `${address} ${containerId}`;
}
