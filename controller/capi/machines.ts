import { poolKeyOf } from "../../claims/pools/pool-ledger.ts";
import { Backoff } from "../../kube/backoff.ts";
import { CAPI_IPAM_GROUP } from "../../kube/cluster-api.ts";
import type { EventWriter } from "../../kube/events.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { CapiClusterView, MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { Log } from "../../platform/log.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import type { ClaimFailure } from "./claim-facts.ts";
import { ClaimQueue } from "./claim-queue.ts";
import type { ClaimStatus } from "./claim-status.ts";
import type { ClaimOutcome, Fulfilment, Turn } from "./fulfilment.ts";
import type { MachineCaches } from "./machine-caches.ts";

/** Claims worked on at once: their writes wait for the API server most of the time. */
const AT_ONCE_MAX = 8;
/** How often also claims that are fulfilled are looked at, ms: every change of what they have is told besides. */
const FULL_PASS_MS = 300_000;
/** Waits after an attempt whose outcome is unknown, ms. */
const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 30_000;
/** How long a failure that often ends by itself is not sent, ms. */
const BRIEF_MS_MAX = 10_000;

export interface MachinesOptions {
  readonly api: KubeApi;
  readonly caches: Pick<MachineCaches, "claims" | "addresses" | "pools" | "clusters" | "doubt">;
  readonly fulfilment: Pick<Fulfilment, "settle">;
  readonly status: Pick<ClaimStatus, "says" | "write">;
  readonly events: Pick<EventWriter, "warn">;
  /** How often every claim that has no address is looked at, whether something has changed or not, ms. */
  readonly passMs: number;
  readonly idle: () => string | null;
  readonly onDue: () => void;
  readonly log: Pick<Log, "info" | "warn">;
}

interface State {
  readonly uid: string;
  readonly poolKey: string;
  /** `fulfilled`, `halted`, `later`, `answered-by-other`, or the reason of a failure. */
  readonly state: string;
  readonly message: string;
}

interface Retry {
  readonly backoff: Backoff;
  /** When the first attempt failed, ms. */
  readonly sinceMs: number;
  atMs: number;
}

/**
 * The claims of machines (Cluster API's IPAddressClaims) on our pools. Events only note which claims are to be looked
 * at; each run looks at all of these, several at once, the oldest first. Nothing that failed is final: it is tried
 * again when an address of the pool is freed, when the pool or the claim changes, and from time to time.
 */
export class Machines {
  readonly #options: MachinesOptions;
  readonly #queue = new ClaimQueue();
  /** By key of the claim. */
  readonly #states = new Map<string, State>();
  /** Claims that failed, by key of their pool. */
  readonly #failed = new Map<string, Set<string>>();
  readonly #retries = new Map<string, Retry>();
  /** Versions of claims that were written over: the followed copy does not show it yet. By key. */
  readonly #written = new Map<string, string>();
  /** When claims without an address are looked at again, and when all are, ms. */
  #passDueMs = Number.NEGATIVE_INFINITY;
  #fullPassDueMs = Number.NEGATIVE_INFINITY;

  constructor(options: MachinesOptions) {
    this.#options = options;
  }

  /** Claims of our pools, by what became of them. */
  get counts(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { state } of this.#states.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
    return counts;
  }

  claimSeen(claim: MachineClaimView, previous: MachineClaimView | undefined): void {
    this.#queue.arrived(claim);
    // Every version comes along: what was written is followed, or newer.
    if (this.#written.get(claim.key) !== claim.resourceVersion) this.#written.delete(claim.key);
    const isFulfilled = this.#states.get(claim.key)?.state === "fulfilled";
    const isChanged = previous === undefined || inputsOf(claim) !== inputsOf(previous);
    // What says so may have been taken away by somebody else.
    if (isChanged || (isFulfilled && readyOf(claim) !== readyOf(previous))) this.#news(claim.key);
  }

  claimGone({ key }: MachineClaimView): void {
    this.#queue.forget(key);
    this.#setState(key, null);
    for (const known of [this.#retries, this.#written]) known.delete(key);
  }

  addressChanged({ key }: Pick<MachineAddressView, "key">): void {
    if (this.#options.caches.claims.items.has(key)) this.#news(key);
  }

  allocationChanged({ spec, status }: IPAllocation, isGone: boolean): void {
    const { owner, network } = spec ?? {};
    if (owner?.kind === "IPAddressClaim" && this.#states.has(`${owner.namespace}/${owner.name}`))
      this.#due(`${owner.namespace}/${owner.name}`);
    if (!isGone && status?.state !== "Cooling") return;
    const { pools } = this.#options.caches;
    for (const [poolKey, keys] of this.#failed)
      if (pools.items.get(poolKey)?.network === network) for (const key of keys) this.#due(key);
  }

  poolChanged(poolKey: string): void {
    for (const claim of this.#options.caches.claims.items.values())
      if (poolKeyOf(claim) === poolKey) this.#news(claim.key);
  }

  clusterChanged(cluster: CapiClusterView, previous: CapiClusterView | undefined): void {
    if (previous?.paused === cluster.paused) return;
    for (const claim of this.#options.caches.claims.items.values())
      if (claim.namespace === cluster.namespace && claim.cluster === cluster.name) this.#news(claim.key);
  }

  /** What was refused is tried again, ms, although nothing tells that it would not be now. Infinite: none is. */
  get nextMs(): number {
    const nowMs = this.#options.api.clock.monotonicMs();
    const retries = [...this.#retries.values()].map(({ atMs }) => (atMs > nowMs ? atMs : nowMs + RETRY_MS_MIN));
    const hasFailed = [...this.#failed.values()].some(({ size }) => size > 0);
    return Math.min(...retries, hasFailed ? Math.max(this.#passDueMs, nowMs + RETRY_MS_MIN) : Number.POSITIVE_INFINITY);
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { api, caches, passMs } = this.#options;
    const nowMs = api.clock.monotonicMs();
    if (this.whyIdle() !== null) {
      // Events may have been missed by whoever works now, or will be until then.
      this.#passDueMs = Number.NEGATIVE_INFINITY;
      this.#fullPassDueMs = Number.NEGATIVE_INFINITY;
      return;
    }
    if (nowMs >= this.#passDueMs) {
      const isFull = nowMs >= this.#fullPassDueMs;
      this.#passDueMs = nowMs + passMs;
      if (isFull) this.#fullPassDueMs = nowMs + FULL_PASS_MS;
      for (const key of caches.claims.items.keys())
        if (isFull || this.#states.get(key)?.state !== "fulfilled") this.#queue.add(key);
    }
    for (const [key, { atMs }] of this.#retries) if (atMs <= nowMs) this.#queue.add(key);
    while (this.#queue.size > 0 && !signal.aborted && this.whyIdle() === null) await this.#runTurn(signal);
  }

  async #runTurn(signal: AbortSignal): Promise<void> {
    const { api, caches } = this.#options;
    const claims = this.#queue.take(caches.claims.items);
    const turn: Turn = { full: new Map() };
    const budget = new TurnBudget(api.clock);
    await severalAtOnce(claims, AT_ONCE_MAX, async (claim) => {
      if (budget.isSpent) await budget.nextTurn();
      // What is left of the turn is not forgotten.
      if (signal.aborted || this.whyIdle() !== null) this.#queue.add(claim.key);
      else await this.#look(claim, turn);
    });
  }

  async #look(seen: MachineClaimView, turn: Turn): Promise<void> {
    const { api, caches, fulfilment, log } = this.#options;
    const claim = caches.claims.items.get(seen.key);
    const poolKey = claim === undefined ? null : poolKeyOf(claim);
    if (claim === undefined || poolKey === null) return;
    if (this.#written.get(claim.key) === claim.resourceVersion) return;
    const retry = this.#retries.get(claim.key);
    if (retry !== undefined && retry.atMs > api.clock.monotonicMs()) return;
    let outcome: ClaimOutcome;
    try {
      outcome = await fulfilment.settle(claim, turn);
      if (outcome.kind === "failed" && this.#mayEndSoon(claim, outcome))
        outcome = { kind: "later", problem: outcome.message };
      else if (outcome.kind === "failed") outcome = await this.#tellFailure(claim, outcome);
      else if (outcome.kind === "fulfilled" && outcome.version !== null) this.#await(claim, outcome.version);
    } catch (error) {
      // Whatever one claim meets, the others go on.
      outcome = { kind: "later", problem: (error as Error).message };
      if (!(error instanceof ApiAway)) log.warn({ claim: claim.key, err: error as Error }, "unexpected");
    }
    this.#note(claim, poolKey, outcome);
  }

  #note(claim: MachineClaimView, poolKey: string, outcome: ClaimOutcome): void {
    const { caches, log } = this.#options;
    if (!caches.claims.items.has(claim.key)) return;
    const before = this.#states.get(claim.key);
    const { state, message } = describe(outcome);
    this.#setState(claim.key, { uid: claim.uid, poolKey, state, message });
    if (outcome.kind === "later") this.#retryLater(claim.key);
    else this.#retries.delete(claim.key);
    if (before?.uid === claim.uid && before.state === state && before.message === message) return;
    if (outcome.kind === "fulfilled" && outcome.version !== null)
      log.info({ claim: claim.key }, "the claim has its address");
    if (outcome.kind === "later") log.warn({ claim: claim.key, problem: message }, "not fulfilled yet; will retry");
    if (outcome.kind === "answered-by-other") this.#warn(claim, "AnsweredByOther", message);
  }

  #mayEndSoon(claim: MachineClaimView, { isBrief, reason, message }: ClaimFailure): boolean {
    const { api, status } = this.#options;
    const nowMs = api.clock.monotonicMs();
    const isNew = nowMs - (this.#retries.get(claim.key)?.sinceMs ?? nowMs) < BRIEF_MS_MAX;
    return isBrief === true && isNew && !status.says(claim, { kind: "failed", reason, message });
  }

  async #tellFailure(claim: MachineClaimView, failure: ClaimFailure): Promise<ClaimOutcome> {
    const { reason, message } = failure;
    const written = await this.#options.status.write(claim, { kind: "failed", reason, message });
    if (written.kind === "later") return written;
    if (written.kind === "done") {
      this.#await(claim, written.version);
      this.#warn(claim, reason, message);
    }
    return { kind: "failed", reason, message };
  }

  /** Nothing is decided from the version that was written over: the followed copy will show the next one. */
  #await({ key, resourceVersion }: MachineClaimView, written: string): void {
    const followed = this.#options.caches.claims.items.get(key)?.resourceVersion;
    if (followed === resourceVersion && written !== resourceVersion) this.#written.set(key, resourceVersion);
  }

  #setState(key: string, state: State | null): void {
    const before = this.#states.get(key);
    if (before !== undefined) this.#failed.get(before.poolKey)?.delete(key);
    if (state === null) this.#states.delete(key);
    else this.#states.set(key, state);
    if (state === null || !isFailure(state.state)) return;
    const failed = this.#failed.get(state.poolKey);
    if (failed === undefined) this.#failed.set(state.poolKey, new Set([key]));
    else failed.add(key);
  }

  #warn(claim: MachineClaimView, reason: string, message: string): void {
    const { caches, events, log } = this.#options;
    const { namespace, name, uid, key } = claim;
    const apiVersion = `${CAPI_IPAM_GROUP}/${caches.claims.path.split("/")[3]}`;
    events.warn({ apiVersion, kind: "IPAddressClaim", namespace, name, uid }, reason, message);
    log.warn({ claim: key, reason }, message);
  }

  #retryLater(key: string): void {
    const { clock } = this.#options.api;
    const nowMs = clock.monotonicMs();
    const { backoff, sinceMs } = this.#retries.get(key) ?? {
      backoff: new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, clock),
      sinceMs: nowMs,
    };
    this.#retries.set(key, { backoff, sinceMs, atMs: nowMs + backoff.next() });
  }

  /** Something that an attempt depends on has changed: it is not waited for the next one. */
  #news(key: string): void {
    const retry = this.#retries.get(key);
    // The waits go on growing: what changes may be the attempts' own doing.
    if (retry !== undefined) retry.atMs = Number.NEGATIVE_INFINITY;
    this.#due(key);
  }

  #due(key: string): void {
    this.#queue.add(key);
    this.#options.onDue();
  }

  /** Why nothing is looked at now; null: it is. */
  whyIdle(): string | null {
    const { caches, idle } = this.#options;
    const { claims, addresses, pools } = caches;
    if (!claims.known || !addresses.known || !pools.known) return "claims, addresses or pools are not known";
    return caches.doubt ?? idle();
  }
}

function describe(outcome: ClaimOutcome): { readonly state: string; readonly message: string } {
  switch (outcome.kind) {
    case "fulfilled":
      return { state: "fulfilled", message: "" };
    case "halted":
      return { state: "halted", message: outcome.why };
    case "failed":
      return { state: outcome.reason, message: outcome.message };
    case "answered-by-other":
      return { state: "answered-by-other", message: outcome.message };
    case "later":
      return { state: "later", message: outcome.problem };
  }
}

/** Whether a claim waits for something that an address which is freed may end. */
function isFailure(state: string): boolean {
  return state === "PoolExhausted" || state === "AllocationFailed" || state === "PoolNotReady";
}

function readyOf({ conditions, otherConditions }: MachineClaimView): string {
  return JSON.stringify([...conditions, ...otherConditions].filter(({ type }) => type === "Ready"));
}

/** What of a claim decides about it; the status that we write ourselves does not. */
function inputsOf(claim: MachineClaimView): string {
  const { uid, pool, cluster, paused, requested, deletionTimestamp, addressRef } = claim;
  return JSON.stringify([uid, pool, cluster, paused, requested, deletionTimestamp, addressRef]);
}
