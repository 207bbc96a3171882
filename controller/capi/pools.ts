import {
  evaluatePool,
  type PoolEvaluation,
  type PoolVerdict,
  type ServedPool,
} from "../../claims/pools/evaluate-pool.ts";
import {
  addressesByPool,
  addressIn,
  countPools,
  findUnrecorded,
  type PoolCounts,
  type Unrecorded,
} from "../../claims/pools/pool-ledger.ts";
import { outdatedAddresses } from "../../claims/pools/pool-status.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { Address } from "../../ipam/space/address.ts";
import { Backoff } from "../../kube/backoff.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import type { IPAllocation, IPNetwork } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { DefinitionsWithPools } from "../../networks/definitions-with-pools.ts";
import { isImported, sourcesOf } from "../../networks/import-sources.ts";
import type { CountingDefinition } from "../../networks/nad-verdict.ts";
import type { Log } from "../../platform/log.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import type { MachineCaches } from "./machine-caches.ts";
import { PoolStatusWriter } from "./pool-status-writer.ts";
import { Preallocations } from "./preallocations.ts";

/** The state of a pool for its claims. `unsettled`: it is not known yet; `onChange` is called when it is. */
export type PoolState = PoolVerdict | { readonly kind: "absent" } | { readonly kind: "unsettled" };

export interface PoolsOptions {
  readonly api: KubeApi;
  readonly caches: Pick<MachineCaches, "pools" | "metal3Pools" | "claims" | "addresses" | "doubt">;
  readonly definitions: DefinitionsWithPools;
  readonly allocations: Cache<CachedAllocation>;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly idle: () => string | null;
  readonly onDue: () => void;
  readonly onTouch: () => void;
  /** Claims of the pool may fare differently from now on. */
  readonly onChange: (poolKey: string) => void;
  readonly log: Pick<Log, "info" | "warn">;
}

/** What the ledger and the IPAddresses tell of a pool, as of the last pass. */
interface LedgerFacts {
  /** The pool's network with its addresses: others may be in use by machines that were not looked for then. */
  readonly network: string;
  readonly counts: PoolCounts | null;
  readonly unrecorded: Unrecorded;
  /** Keys of IPAddresses that differ from new ones. */
  readonly outdated: readonly string[];
}

interface Evaluated {
  readonly view: AddressPoolView;
  readonly definition: CountingDefinition["definition"] | null;
  readonly object: IPNetwork | null;
  readonly ledger: LedgerFacts | undefined;
  readonly editions: number;
}

interface Memo extends Evaluated {
  readonly evaluation: PoolEvaluation;
}

/** Pools written at once: one that is not answered does not hold up the others. */
const WRITTEN_AT_ONCE = 4;
/** Waits after a write of a pool that failed, ms. */
const RETRY_MS_MIN = 3_000;
const RETRY_MS_MAX = 120_000;

/** For claims, the same for all of them and until it is over: the pool's condition names what is waited for. */
const NOT_IMPORTED =
  "what was in use before is recorded first; the condition Ready of the AddressPool shows what is missing";
const UNSEEN = "what machines have of it already is not known yet";

/** Every AddressPool: whether it gives addresses and which, what it keeps for claims to come, and what it shows. */
export class Pools {
  readonly #options: PoolsOptions;
  readonly #preallocations: Preallocations;
  readonly #status: PoolStatusWriter;
  /** By UID of the pool. */
  #ledger: ReadonlyMap<string, LedgerFacts> = new Map();
  /** Networks whose allocations concern a pool. */
  #networks: ReadonlySet<string> = new Set();
  #hasChanged = true;
  readonly #memos = new Map<string, Memo>();
  /** Pools whose writes failed, by UID. */
  readonly #retries = new Map<string, { readonly backoff: Backoff; readonly atMs: number }>();
  /** Pools whose status is to be written later, by UID. */
  readonly #late = new Set<string>();
  /** The last state that `onChange` was called for, by key. */
  readonly #sent = new Map<string, string>();
  /** Pools that claims found unsettled, by key. */
  readonly #unsettled = new Set<string>();
  /** Number of changes of definitions and of Metal3's pools. */
  #editions = 0;

  constructor(options: PoolsOptions) {
    this.#options = options;
    this.#preallocations = new Preallocations(options);
    this.#status = new PoolStatusWriter(options);
  }

  /** The state of a pool, by `namespace/name`, from the newest copies. */
  stateOf(key: string): PoolState {
    const view = this.#options.caches.pools.items.get(key);
    if (view === undefined) return { kind: "absent" };
    const { verdict, definition } = this.#evaluate(view);
    const isKnown = this.#ledger.get(view.uid)?.network === describeNetwork(view.network, definition);
    if (verdict.kind !== "waiting" || verdict.reason !== "NotImported") return verdict;
    if (isKnown) return { ...verdict, message: NOT_IMPORTED };
    this.#unsettled.add(key);
    this.#options.onTouch();
    return { kind: "unsettled" };
  }

  touchDefinitions(): void {
    this.#editions += 1;
    this.#hasChanged = true;
  }

  touchMachines(): void {
    this.#hasChanged = true;
  }

  touchAllocation({ metadata, spec }: IPAllocation): void {
    if (!this.#networks.has(spec?.network)) return;
    this.#hasChanged = true;
    this.#options.onTouch();
    // It is free for others as soon as its cool-down is over, which may be at once.
    if (this.#preallocations.concerns(metadata.name)) this.#options.onDue();
  }

  /** When what failed, or is not shown yet, is tried again, ms; infinite: nothing is. */
  get nextMs(): number {
    const soonMs = this.#options.api.clock.monotonicMs() + RETRY_MS_MIN;
    if (this.#late.size > 0 || this.#preallocations.isWaiting) return soonMs;
    return Math.min(...[...this.#retries.values()].map(({ atMs }) => Math.max(atMs, soonMs)));
  }

  /** Why pools cannot be evaluated; null: they can. */
  whyUnknown(): string | null {
    const { caches, allocations, networks } = this.#options;
    return caches.doubt ?? (allocations.known && networks.known ? null : "allocations are not known");
  }

  async runPass(signal: AbortSignal): Promise<void> {
    if (this.whyUnknown() !== null) return;
    const views = [...this.#options.caches.pools.items.values()];
    this.#forgetAllBut(views);
    if (this.#hasChanged) {
      this.#hasChanged = false;
      await this.#readLedger(views);
    }
    // Claims hear of every pool before anything is written.
    for (const view of views) this.#tell(view.key, this.#evaluate(view).verdict);
    await severalAtOnce(views, WRITTEN_AT_ONCE, (view) => this.#write(view, signal));
  }

  /** Whatever one pool meets, the others go on; it is tried again, later each time. */
  async #write(view: AddressPoolView, signal: AbortSignal): Promise<void> {
    const { api, idle, log } = this.#options;
    const nowMs = api.clock.monotonicMs();
    const retry = this.#retries.get(view.uid);
    if (signal.aborted || idle() !== null || (retry !== undefined && nowMs < retry.atMs)) return;
    const evaluation = this.#evaluate(view);
    const { verdict } = evaluation;
    const ledger = this.#ledger.get(view.uid);
    const { counts = null, outdated = [] } = ledger ?? {};
    try {
      const notKept = verdict.kind === "served" ? await this.#preallocations.keep(verdict.pool, ledger, signal) : [];
      this.#late.delete(view.uid);
      if (!(await this.#status.write(view, evaluation, { counts, notKept, outdated }))) this.#late.add(view.uid);
      this.#retries.delete(view.uid);
    } catch (error) {
      const backoff = retry?.backoff ?? new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, api.clock);
      this.#retries.set(view.uid, { backoff, atMs: api.clock.monotonicMs() + backoff.next() });
      log.warn({ pool: view.key, err: error as Error }, "the pool is not brought up to date; will retry");
    }
  }

  #forgetAllBut(views: readonly AddressPoolView[]): void {
    const keys = new Set(views.map(({ key }) => key));
    for (const known of [this.#memos, this.#sent, this.#unsettled])
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    const uids = new Set(views.map(({ uid }) => uid));
    for (const known of [this.#retries, this.#late])
      for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid);
    this.#status.forgetAllBut(uids);
    this.#preallocations.forgetAllBut(uids);
  }

  #evaluate(view: AddressPoolView): PoolEvaluation {
    const { definitions, networks, caches } = this.#options;
    const counting = definitions.definitionOf(view.network);
    const made: Evaluated = {
      view,
      definition: counting?.definition ?? null,
      object: networkObjectOf(view.network, (name) => networks.items.get(name)?.object),
      ledger: this.#ledger.get(view.uid),
      editions: this.#editions,
    };
    const memo = this.#memos.get(view.key);
    if (memo !== undefined && isSame(memo, made)) return memo.evaluation;
    const { metal3Pools } = caches;
    const evaluation = evaluatePool({
      pool: view,
      counting,
      owner: definitions.ownerOf(view.network),
      own: definitions.poolReading(view.key),
      broken: counting === null ? definitions.brokenOf(view.network) : null,
      isNameTaken: !metal3Pools.missing && metal3Pools.items.has(view.key),
      former: formerOf(view, made.ledger),
      unrecorded: this.#whyUnrecorded(made),
      avoided: [...(made.ledger?.unrecorded.stray ?? []), ...this.#gatewaysBeside(view)],
      recovering: whyRecovering(made.object),
    });
    this.#memos.set(view.key, { ...made, evaluation });
    return evaluation;
  }

  /** The gateways that other pools of the network tell: the routers of their machines have them. */
  #gatewaysBeside({ key, network }: AddressPoolView): Address[] {
    const others = [...this.#options.caches.pools.items.values()].filter(
      (one) => one.network === network && one.key !== key && one.gateway !== null,
    );
    return others.flatMap(({ gateway }) => addressIn(gateway ?? "") ?? []);
  }

  #whyUnrecorded({ view: { network }, definition, object, ledger }: Evaluated): string | null {
    if (!isImported(object, sourcesOf(this.#options.definitions, network, null)))
      return `network ${network} is not imported yet: what was in use of it before is recorded first; if it does not end, the log of the controller shows why`;
    return ledger?.network === describeNetwork(network, definition) ? ledger.unrecorded.awaited : UNSEEN;
  }

  #tell(key: string, verdict: PoolVerdict): void {
    const text = verdict.kind === "served" ? describeServed(verdict.pool) : describeWaiting(verdict);
    // It may be as it was sent, and have been unsettled in between.
    const wasUnsettled = this.#unsettled.delete(key);
    if (this.#sent.get(key) === text && !wasUnsettled) return;
    this.#sent.set(key, text);
    this.#options.onChange(key);
  }

  async #readLedger(views: readonly AddressPoolView[]): Promise<void> {
    const { api, caches, allocations } = this.#options;
    const machines = { claims: caches.claims.items, addresses: caches.addresses.items };
    const evaluated = views.map((view) => ({ view, evaluation: this.#evaluate(view) }));
    const pools = evaluated.map(({ view: { key, network }, evaluation: { space } }) => ({
      key,
      network,
      space,
    }));
    const all = views.length === 0 ? [] : [...allocations.items.values()];
    const counts = await countPools(pools, all, machines, api.clock);
    const answered = addressesByPool(views.length === 0 ? [] : machines.addresses.values());
    const found = new Map<string, LedgerFacts>();
    const watched = new Set<string>();
    const budget = new TurnBudget(api.clock);
    for (const { view, evaluation } of evaluated) {
      const { key, uid } = view;
      const { definition, space } = evaluation;
      const network = describeNetwork(view.network, definition);
      const addresses = answered.get(key) ?? [];
      const known = this.#ledger.get(uid);
      // Later ones are of claims that this pool serves: the ledger had them first.
      const isSettled = known?.network === network && known.unrecorded.awaited === null;
      const recorded = { claims: machines.claims, allocations: allocations.items };
      const unrecorded =
        definition === null
          ? { awaited: UNSEEN, stray: [] }
          : await findUnrecorded(addresses, definition, recorded, budget);
      found.set(uid, {
        network,
        counts: counts.get(key) ?? null,
        unrecorded: isSettled ? { ...unrecorded, awaited: null } : unrecorded,
        outdated: definition && space ? await outdatedAddresses(addresses, definition, space, budget) : [],
      });
      for (const one of [view.network, ...(counts.get(key)?.held.keys() ?? [])]) watched.add(one);
    }
    this.#ledger = found;
    this.#networks = watched;
  }
}

function describeNetwork(network: string, definition: Evaluated["definition"]): string {
  return JSON.stringify([network, ...(definition?.rangeSets ?? []).map(({ fingerprint }) => fingerprint)]);
}

function formerOf(
  { network: present }: AddressPoolView,
  ledger: LedgerFacts | undefined,
): { readonly network: string; readonly count: number } | null {
  const [former] = [...(ledger?.counts?.held ?? [])].filter(([network]) => network !== present);
  return former === undefined ? null : { network: former[0], count: former[1] };
}

function whyRecovering(object: IPNetwork | null): string | null {
  const mark = object === null ? null : recoveryMark(object);
  return mark === null ? null : `no new address of the network is given now: ${mark.message}`;
}

function isSame(a: Evaluated, b: Evaluated): boolean {
  return (
    a.view === b.view &&
    a.definition === b.definition &&
    a.object === b.object &&
    a.ledger === b.ledger &&
    a.editions === b.editions
  );
}

function describeWaiting({ reason, message }: Extract<PoolVerdict, { kind: "waiting" }>): string {
  return `${reason} ${reason === "NotImported" ? NOT_IMPORTED : message}`;
}

/** Of what claims depend on. */
function describeServed({ view, definition }: ServedPool): string {
  return `${view.uid} ${view.generation} ${definition.fingerprint}`;
}
