/*
 * controller/sweep/: every reason of every address judged (claims/reasons), then carried out
 *
 *   sweeper          in turns: what has changed, whose grace has ended, and a slice of everything
 *   follow-changes   which change of a followed copy concerns what
 *   judgements       verdicts by the copies, and which of them a change may alter: dependents
 *   observations     how long a verdict has stood
 *   due-verdicts     what is to be carried out, by namespace; carry-out: a group of them
 */

import type { CachedAllocation, Caches } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import type { Found } from "../../claims/reasons/facts.ts";
import type { RememberedFacts } from "../../claims/reasons/fresh-facts.ts";
import { NO_MEMORY } from "../../claims/reasons/read-facts.ts";
import type { Rules, Verdict } from "../../claims/reasons/verdict.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { Log } from "../../platform/log.ts";
import type { RestOptions } from "../../platform/periodic-task.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import { parseTime } from "../../platform/time.ts";
import { KeyedMutex } from "../../store/cluster/parts/keyed-mutex.ts";
import { type CarryOutContext, type CarryOutOutcome, carryOutGroup } from "./carry-out.ts";
import type { DependencyKind } from "./dependents.ts";
import { type Due, DueVerdicts } from "./due-verdicts.ts";
import { Judgements } from "./judgements.ts";
import { Observations } from "./observations.ts";

/**
 * Groups carried out in parallel: each member costs a few reads of the API server, which others need too. With four,
 * the machines of a cluster that is torn down would wait for minutes.
 */
const GROUPS_AT_ONCE = 12;
const SECOND_MS = 1_000;
/** In so long everything is judged once, whether something has changed or not, ms. */
const EVERYTHING_MS = 600_000;
/** A turn that begins within this many intervals after the last one counts as uninterrupted observation. */
const GAP_INTERVALS_MAX = 3;
/** Minimum of that, ms: a server that restarts must not reset every grace period. */
const GAP_MS_MIN = 30_000;
/** The rest after a turn: an address is freed within 5 s of the end of its grace, however much was judged before. */
export const TURN_REST: RestOptions = { restMsMax: 2_000 };
/** The rest after carrying out: short, for few workers at a low priority disturb nobody, and a backlog must end. */
export const CARRY_OUT_REST: RestOptions = { restMsMax: 1_000 };

export interface SweeperOptions {
  readonly api: KubeApi;
  readonly caches: Caches;
  readonly rules: Rules;
  readonly intervalSeconds: number;
  /** Why the caches cannot be trusted: one is incomplete, or the server is away. null: they can. */
  readonly doubt: () => string | null;
  /** Why nothing may be released now: a doubt, or another controller works; null: it may. */
  readonly idle: () => string | null;
  readonly log: Pick<Log, "debug" | "info" | "warn">;
  /** Something is to be judged. */
  readonly onChange?: () => void;
  readonly onDue?: () => void;
  /** After a verdict was carried out. */
  readonly onDone?: (object: IPAllocation, verdict: Verdict) => void;
}

/**
 * The repair loop. An allocation is judged when something has changed that its verdict rests on, when its grace has
 * ended, and once in ten minutes in any case; what has stood long enough is carried out. Turns go on while something is
 * carried out, and while another controller leads: observations must not be lost for either. See docs/decisions/0075.
 */
export class Sweeper {
  /** One claim at a time (`namespace/name`): what of it is released, and what is written of its list. */
  readonly claimMutex: KeyedMutex;
  readonly #options: SweeperOptions;
  readonly #observations: Observations;
  readonly #judgements: Judgements;
  readonly #wakeups = new Wakeups();
  readonly #due = new DueVerdicts();
  readonly #sharedReads = new SingleFlight<Found<unknown>>();
  /** Names of allocations to be judged in the next turn. */
  readonly #marked = new Set<string>();
  /** Names of allocations being changed. */
  readonly #inHand = new Set<string>();
  #everything: Iterator<CachedAllocation> | null = null;
  /** When the last turn began that judged more than what had changed, ms. */
  #regularMs = Number.NEGATIVE_INFINITY;
  #wakeWorkers = () => {};

  constructor(options: SweeperOptions) {
    const { caches, rules, intervalSeconds } = options;
    this.#options = options;
    this.claimMutex = new KeyedMutex(options.api.clock);
    this.#observations = new Observations(Math.max(GAP_MS_MIN, intervalSeconds * 1_000 * GAP_INTERVALS_MAX));
    this.#judgements = new Judgements({ caches, rules, mark: (name) => this.#mark(name) });
  }

  /** What no object says, for judgements by quorum reads. */
  get memory(): RememberedFacts {
    const machines = this.#options.caches.machines ?? NO_MEMORY;
    return { ...this.#judgements.memory, machines, sharedReads: this.#sharedReads };
  }

  /** Allocations by `<verdict> <why>`, as each was judged last. */
  get counts(): ReadonlyMap<string, number> {
    return this.#judgements.counts;
  }

  get overdueSeconds(): number {
    return this.#observations.overdueSeconds(this.#nowMs);
  }

  /**
   * When something is to be judged besides what changes until then: an instant of the clock, ms; Infinity: never. While
   * a verdict is observed there are turns all the time: without them nobody knows that nothing was missed.
   */
  get nextMs(): number {
    if (this.#marked.size > 0) return this.#nowMs;
    if (!this.#observations.isAny) return this.#wakeups.nextMs;
    return Math.min(this.#wakeups.nextMs, this.#nowMs + this.#options.intervalSeconds * 1_000);
  }

  allocationChanged(now: CachedAllocation | null, before: CachedAllocation | null): void {
    this.#judgements.allocationChanged(now, before);
  }

  podChanged(now: SweptPod | null, before: SweptPod | null): void {
    this.#judgements.podChanged(now, before);
  }

  poolChanged(namespace: string): void {
    this.#judgements.poolChanged(namespace);
  }

  factChanged(kind: DependencyKind, key: string): void {
    this.#judgements.factChanged(kind, key);
  }

  /** A NAD has changed, or what defines a network. */
  definitionsChanged(): void {
    this.#judgements.definitionsChanged();
  }

  knownChanged(): void {
    this.#judgements.markBecameKnown();
  }

  /** Judges what is to be judged now; not concurrently. Ends early when the signal aborts. */
  async runTurn(signal: AbortSignal): Promise<void> {
    const { api, log, doubt, onDue, intervalSeconds } = this.#options;
    const reason = doubt();
    if (reason !== null) {
      log.debug({ reason }, "no sweep");
      return;
    }
    const startMs = this.#nowMs;
    this.#judgements.markBecameKnown();
    for (const name of this.#observations.beginTurn(startMs)) this.#marked.add(name);
    for (const name of this.#wakeups.take(startMs)) this.#marked.add(name);
    if (startMs - this.#regularMs >= intervalSeconds * 1_000) {
      this.#markSlice(startMs - this.#regularMs);
      this.#regularMs = startMs;
    }
    const budget = new TurnBudget(api.clock);
    for (const name of this.#marked) {
      this.#marked.delete(name);
      this.#judge(name);
      if (budget.isSpent) await budget.nextTurn();
      if (signal.aborted) return;
    }
    this.#observations.endTurn(this.#nowMs);
    if (this.#due.size === 0) return;
    this.#wakeWorkers();
    onDue?.();
  }

  /** Carries out what is due, also what becomes so meanwhile; not concurrently. Ends early when the signal aborts. */
  async carryOutDue(signal: AbortSignal): Promise<void> {
    const workers = new Set<Promise<void>>();
    const mayGoOn = () => !signal.aborted && this.#options.idle() === null;
    try {
      for (;;) {
        const isMoreDue = new Promise<void>((resolve) => {
          this.#wakeWorkers = resolve;
        });
        while (workers.size < GROUPS_AT_ONCE && this.#due.size > 0 && mayGoOn()) {
          const worker = this.#carryOut(this.#due.take(GROUPS_AT_ONCE), mayGoOn).finally(() => workers.delete(worker));
          workers.add(worker);
        }
        if (workers.size === 0) return;
        await Promise.race([isMoreDue, ...workers]);
      }
    } finally {
      await Promise.allSettled(workers);
    }
  }

  #mark(name: string): void {
    const isFirst = this.#marked.size === 0;
    this.#marked.add(name);
    if (isFirst) this.#options.onChange?.();
  }

  /** Marks as many allocations as are to be judged in any case in so many milliseconds. */
  #markSlice(ms: number): void {
    const { items } = this.#options.caches.allocations;
    const share = Math.min(1, ms / EVERYTHING_MS);
    for (let left = Math.ceil(items.size * share) + 1; left > 0; left -= 1) {
      this.#everything ??= items.values();
      const { value: one, done } = this.#everything.next();
      if (done === true) this.#everything = null;
      else this.#marked.add(one.key);
    }
  }

  #judge(name: string): void {
    const { caches, log } = this.#options;
    const one = caches.allocations.items.get(name);
    this.#due.delete(name);
    if (one === undefined) {
      this.#judgements.forget(name);
      this.#observations.forget(name);
      return;
    }
    const { object } = one;
    const { verdict, isNews } = this.#judgements.judge(one);
    if (verdict.kind === "report" && isNews)
      log.warn({ allocation: name, why: verdict.why }, "nobody can tell what this allocation is; it is kept");
    const nowMs = this.#nowMs;
    const dueMs = this.#observations.see(object, verdict, nowMs);
    const nextMs = verdict.why === "retained" ? this.#retentionEndMs(object) : dueMs;
    if (dueMs > nowMs) {
      if (nextMs < Number.POSITIVE_INFINITY) this.#wakeups.add(name, nextMs);
    } else if (!this.#inHand.has(name))
      this.#due.set({ object, verdict }, { wasTried: this.#observations.wasTried(name) });
  }

  /** On the monotonic clock. One far away, or that moves with the other clock, is found by the pass over everything. */
  #retentionEndMs({ status }: IPAllocation): number {
    const leftMs = parseTime(status?.retainedUntil ?? "") - this.#options.rules.wallMs();
    return leftMs <= EVERYTHING_MS ? this.#nowMs + Math.max(1, leftMs) : Number.POSITIVE_INFINITY;
  }

  async #carryOut(group: readonly Due[], mayGoOn: () => boolean): Promise<void> {
    const { intervalSeconds } = this.#options;
    const { claimMutex } = this;
    const context: CarryOutContext = { ...this.#options, ...this.memory, claimMutex };
    const names = group.map(({ object }) => object.metadata.name);
    for (const name of names) this.#inHand.add(name);
    try {
      await carryOutGroup(context, group, {
        mayGoOn,
        onOutcome: (due, outcome) => {
          this.#inHand.delete(due.object.metadata.name);
          this.#settle(due, outcome);
        },
      });
    } finally {
      // Whatever became of it, it is judged again: also what was left because nothing may be written now.
      for (const name of names) {
        this.#inHand.delete(name);
        this.#wakeups.add(name, this.#nowMs + intervalSeconds * 1_000);
      }
      // After the end of a turn nobody has asked when the next one is due.
      this.#options.onChange?.();
    }
  }

  #settle({ object, verdict }: Due, outcome: CarryOutOutcome): void {
    const { log, onDone } = this.#options;
    const { network, address, owner } = object.spec;
    const fields = { network, address, owner, verdict: verdict.kind, why: verdict.why };
    if (outcome.kind === "failed") {
      log.warn({ ...fields, problem: outcome.problem }, "not carried out; will retry");
      this.#observations.noteTried(object.metadata.name);
      return;
    }
    this.#observations.forget(object.metadata.name);
    if (outcome.kind === "changed") {
      log.debug(fields, "changed meanwhile");
      return;
    }
    log.info(fields, "carried out");
    onDone?.(object, verdict);
  }

  get #nowMs(): number {
    return this.#options.api.clock.monotonicMs();
  }
}

/** When to look at names again, in whole seconds of a monotonic clock: up to a second after the instant asked for. */
class Wakeups {
  readonly #bySecond = new Map<number, Set<string>>();

  add(name: string, atMs: number): void {
    const second = Math.ceil(atMs / SECOND_MS);
    const known = this.#bySecond.get(second);
    if (known === undefined) this.#bySecond.set(second, new Set([name]));
    else known.add(name);
  }

  /** The next instant, ms; Infinity: there is none. */
  get nextMs(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const second of this.#bySecond.keys()) next = Math.min(next, second);
    return next * SECOND_MS;
  }

  /** Names whose instant has come; they are not returned again. */
  take(nowMs: number): string[] {
    const taken: string[] = [];
    for (const [second, names] of this.#bySecond) {
      if (second * SECOND_MS > nowMs) continue;
      this.#bySecond.delete(second);
      for (const name of names) taken.push(name);
    }
    return taken;
  }
}
