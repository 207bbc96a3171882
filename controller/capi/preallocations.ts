import { AllocationClient } from "../../allocations/allocation-client.ts";
import { type HoldOutcome, hold, tooManyWriters } from "../../allocations/hold.ts";
import { describeHolder, toAllocationOwner } from "../../allocations/owners.ts";
import type { ServedPool } from "../../claims/pools/evaluate-pool.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import { type Owner, preallocationUid } from "../../ipam/owner.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { Backoff } from "../../kube/backoff.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { Log } from "../../platform/log.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";

/** Written in parallel: pods and claims use the server too. */
const KEPT_AT_ONCE = 4;
/** Read, create or replace, and once more after a conflict, each with its own limit, ms. */
const KEEP_MS_MAX = 3 * HOUSEKEEPING_DEADLINE_MS;
/** How long, ms, one that was just written is not written again although the copy does not show it yet. */
const SHOWN_AFTER_MS = 10_000;
/** Waits after the server has refused one, ms; an edit of the pool ends them. */
const REFUSED_MS_MIN = 3_000;
const REFUSED_MS_MAX = 300_000;

export interface PreallocationsOptions {
  readonly api: KubeApi;
  readonly allocations: Cache<CachedAllocation>;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info">;
}

interface Kept {
  readonly pool: ServedPool;
  readonly ledger: unknown;
  readonly problems: readonly string[];
  /** Until the ledger or the pool changes. */
  readonly isFinal: boolean;
  readonly names: ReadonlySet<string>;
  /** When an allocation was written here last, ms, by its name. */
  readonly writtenMs: Map<string, number>;
  /** Allocations that the server refused, by name. */
  readonly refused: Map<string, Refused>;
}

interface Refused {
  readonly problem: string;
  readonly backoff: Backoff;
  /** When it is tried again. */
  readonly atMs: number;
}

interface Preallocation {
  readonly claim: string;
  readonly address: Address;
  readonly name: string;
}

/**
 * Keeps preallocated addresses for claims that do not exist yet: each is Bound to the claim's name, which the claim
 * takes over. Where the claim has the address already, nothing is written.
 */
export class Preallocations {
  readonly #options: PreallocationsOptions;
  /** By UID of the pool. */
  readonly #kept = new Map<string, Kept>();

  constructor(options: PreallocationsOptions) {
    this.#options = options;
  }

  concerns(name: string): boolean {
    return [...this.#kept.values()].some(({ names }) => names.has(name));
  }

  /** Whether something was written that is not shown yet, or refused. */
  get isWaiting(): boolean {
    return [...this.#kept.values()].some(({ isFinal }) => !isFinal);
  }

  forgetAllBut(poolUids: ReadonlySet<string>): void {
    for (const uid of this.#kept.keys()) if (!poolUids.has(uid)) this.#kept.delete(uid);
  }

  /** `ledger`: another where allocations may have changed. Returns what is not kept, in sentences. Throws ApiAway. */
  async keep(pool: ServedPool, ledger: unknown, signal: AbortSignal): Promise<readonly string[]> {
    const known = this.#kept.get(pool.view.uid);
    if (known?.isFinal && known.pool === pool && known.ledger === ledger) return known.problems;
    const { api, allocations, idle } = this.#options;
    const nowMs = api.clock.monotonicMs();
    const isEdited = known?.pool.view.generation !== pool.view.generation;
    const writtenMs = known?.writtenMs ?? new Map<string, number>();
    const refused = isEdited ? new Map<string, Refused>() : known.refused;
    for (const [name, ms] of writtenMs) if (nowMs - ms > SHOWN_AFTER_MS) writtenMs.delete(name);
    const problems: string[] = [];
    const missing: Preallocation[] = [];
    const names = new Set<string>();
    const budget = new TurnBudget(api.clock);
    for (const [claim, address] of pool.preallocated) {
      if (budget.isSpent) await budget.nextTurn();
      const name = allocationName(pool.definition.name, address);
      names.add(name);
      const object = allocations.items.get(name)?.object ?? null;
      const isBound = object !== null && object.status?.state !== "Cooling";
      const refusal = refused.get(name);
      if (isBound) refused.delete(name);
      if (!isBound && refusal !== undefined && nowMs < refusal.atMs) problems.push(refusal.problem);
      else if (!isBound && !writtenMs.has(name)) missing.push({ claim, address, name });
      else if (isBound && !isOf(pool, claim, object)) problems.push(describeHeld({ claim, address }, object));
    }
    await severalAtOnce(missing, KEPT_AT_ONCE, async (one) => {
      if (signal.aborted || idle() !== null) return;
      const problem = await this.#keepOne(pool, one, { writtenMs, refused });
      if (problem !== null) problems.push(problem);
    });
    for (const name of refused.keys()) if (!names.has(name)) refused.delete(name);
    // What was written, or refused, is looked at again in the next pass.
    const isFinal = missing.length === 0 && writtenMs.size === 0 && refused.size === 0;
    const kept = { pool, ledger, problems: problems.sort(), isFinal, names, writtenMs, refused };
    this.#kept.set(pool.view.uid, kept);
    return problems;
  }

  async #keepOne(
    pool: ServedPool,
    one: Preallocation,
    { writtenMs, refused }: Pick<Kept, "writtenMs" | "refused">,
  ): Promise<string | null> {
    const { api, log } = this.#options;
    const { claim, address, name } = one;
    try {
      const outcome = await this.#hold(pool, one);
      if (outcome.kind === "changed") throw tooManyWriters(pool.definition.name, address);
      if (outcome.kind === "taken" && !isOf(pool, claim, outcome.object)) return describeHeld(one, outcome.object);
      writtenMs.set(name, api.clock.monotonicMs());
      refused.delete(name);
      const fields = { pool: pool.view.key, claim, address: formatAddress(address) };
      if (outcome.kind === "held") log.info(fields, "kept for a claim to come");
      return null;
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      const problem = `${describe(one)} cannot be kept: ${error.refusal.message}`;
      const backoff = refused.get(name)?.backoff ?? new Backoff(REFUSED_MS_MIN, REFUSED_MS_MAX, api.clock);
      refused.set(name, { problem, backoff, atMs: api.clock.monotonicMs() + backoff.next() });
      return problem;
    }
  }

  #hold({ view, definition, prefixLengthFor }: ServedPool, one: Preallocation): Promise<HoldOutcome<never>> {
    const { api, allocations } = this.#options;
    const { claim, address, name } = one;
    const prefixLength = prefixLengthFor(address);
    if (prefixLength === null) throw new Error(`${formatAddress(address)} is in no subnet of its pool`);
    const { namespace, uid } = view;
    const owner: Owner = {
      ...{ kind: "addressClaim", namespace, name: claim, interface: "" },
      uid: preallocationUid(uid),
    };
    const isCooling = allocations.items.has(name);
    return hold(new AllocationClient(api, "housekeeping"), {
      network: definition.name,
      one: { address, prefixLength },
      holder: { owner: toAllocationOwner(owner), attachment: null },
      deadlineMs: api.clock.monotonicMs() + KEEP_MS_MAX,
      believed: isCooling ? undefined : null,
    });
  }
}

/** Whether an address is the claim's, or kept for it. */
function isOf({ view: { namespace } }: ServedPool, claim: string, { spec: { owner } }: IPAllocation): boolean {
  return owner.kind === "IPAddressClaim" && owner.namespace === namespace && owner.name === claim;
}

function describe({ claim, address }: Pick<Preallocation, "claim" | "address">): string {
  return `${formatAddress(address)}, preallocated to claim ${claim},`;
}

function describeHeld(one: Pick<Preallocation, "claim" | "address">, { spec }: IPAllocation): string {
  return `${describe(one)} is held by ${describeHolder(spec.owner)}`;
}
