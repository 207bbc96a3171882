import { attachedClaims, type Caches, cachedFacts, migratedGuests } from "../claims/reasons/caches.ts";
import type { Found } from "../claims/reasons/facts.ts";
import { NO_MEMORY } from "../claims/reasons/read-facts.ts";
import { judge } from "../claims/reasons/relations.ts";
import type { Rules, Verdict } from "../claims/reasons/verdict.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import type { Log } from "../platform/log.ts";
import type { RestOptions } from "../platform/periodic-task.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import { type CarryOutContext, carryOut } from "./carry-out.ts";
import { Observations } from "./observations.ts";

/**
 * Verdicts carried out in parallel: each costs a few reads of the API server, which others need too. With four, the
 * machines of a cluster that is torn down would wait for minutes.
 */
const CARRIED_OUT_AT_ONCE = 12;
/** Verdicts carried out in one run; the others wait for the next. */
const CARRIED_OUT_PER_TURN = 1_000;
/** A pass that begins within this many intervals after the last one counts as uninterrupted observation. */
const GAP_INTERVALS_MAX = 3;
/** Minimum of that, ms: a server that restarts must not reset every grace period. */
const GAP_MS_MIN = 30_000;
/** The rest after a pass: however long it took, the next one must begin before it counts as a gap. */
export const LOOK_REST: RestOptions = { restMsMax: 20_000 };
/** The rest after carrying out: short, for few workers at a low priority disturb nobody, and a backlog must end. */
export const CARRY_OUT_REST: RestOptions = { restMsMax: 1_000 };

export interface SweeperOptions {
  readonly api: KubeApi;
  readonly caches: Caches;
  readonly rules: Rules;
  readonly intervalSeconds: number;
  /** Why the caches cannot be trusted: one is incomplete, or the server is away. null: they can. */
  readonly doubt: () => string | null;
  /** Why nothing may be released now: a doubt, or another controller works. null: it may. */
  readonly idle: () => string | null;
  readonly log: Pick<Log, "debug" | "info" | "warn">;
  /** Something has stood long enough to be carried out. */
  readonly onDue?: () => void;
  /** After a verdict was carried out. */
  readonly onDone?: (object: IPAllocation, verdict: Verdict) => void;
}

interface Due {
  readonly object: IPAllocation;
  readonly verdict: Verdict;
}

/**
 * The repair loop: judges every allocation again and again, and carries out what has stood long enough. Passes go on
 * while something is carried out, and while another controller leads: observations must not be lost for either.
 */
export class Sweeper {
  readonly #options: SweeperOptions;
  readonly #observations: Observations;
  /** UIDs of malformed allocations, each reported once. */
  #reported = new Set<string>();
  #counts: ReadonlyMap<string, number> = new Map();
  /** What the last pass found due, by name, and what has not been tried since. */
  #due = new Map<string, Due>();
  readonly #sharedReads = new SingleFlight<Found<unknown>>();
  /** Names of allocations being changed. */
  readonly #inHand = new Set<string>();
  #attachedToClaim: CarryOutContext["attachedToClaim"] = () => false;
  #guestRunsElsewhere: CarryOutContext["guestRunsElsewhere"] = () => true;

  constructor(options: SweeperOptions) {
    this.#options = options;
    this.#observations = new Observations(
      Math.max(GAP_MS_MIN, options.intervalSeconds * 1_000 * GAP_INTERVALS_MAX),
    );
  }

  /** Allocations by `<verdict> <why>`, of the last pass. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** How much longer than its grace the oldest due verdict has waited, seconds; 0 when none has. */
  get overdueSeconds(): number {
    return this.#observations.overdueSeconds(this.#options.api.clock.monotonicMs());
  }

  /** When the next verdict has stood long enough: an instant of the clock, ms; Infinity: none will. */
  get nextDueMs(): number {
    return this.#observations.nextDueMs(this.#options.api.clock.monotonicMs());
  }

  /** One pass over everything; not concurrently. Ends early when the signal aborts. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { api, caches, rules, log, doubt, onDue } = this.#options;
    const reason = doubt();
    if (reason !== null) {
      log.debug({ reason }, "no sweep");
      return;
    }
    const { clock } = api;
    const facts = cachedFacts(caches);
    const due: Due[] = [];
    const counts = new Map<string, number>();
    const reported = new Set<string>();
    const budget = new TurnBudget(clock);
    this.#observations.beginPass(clock.monotonicMs());
    for (const one of [...caches.allocations.items.values()]) {
      const { object } = one;
      const verdict = judge(one, facts, rules);
      const word = `${verdict.kind} ${verdict.why}`;
      counts.set(word, (counts.get(word) ?? 0) + 1);
      if (verdict.kind === "report") this.#report(object, verdict, reported);
      if (this.#observations.see(object, verdict, clock.monotonicMs())) due.push({ object, verdict });
      if (budget.isSpent) await budget.nextTurn();
      if (signal.aborted) return;
    }
    this.#observations.endPass(clock.monotonicMs());
    this.#counts = counts;
    this.#reported = reported;
    this.#attachedToClaim = attachedClaims(caches.allocations.items);
    this.#guestRunsElsewhere = migratedGuests(caches.allocations.items);
    // A change that keeps failing must not hold up others.
    const triedIn = ({ object }: Due) => this.#observations.triedIn(object.metadata.name);
    due.sort((a, b) => triedIn(a) - triedIn(b));
    this.#due = new Map(due.map((one) => [one.object.metadata.name, one]));
    for (const name of this.#inHand) this.#due.delete(name);
    if (due.length > 0) onDue?.();
  }

  /** Carries out what is due; not concurrently. Ends early when the signal aborts. */
  async carryOutDue(signal: AbortSignal): Promise<void> {
    let left = CARRIED_OUT_PER_TURN;
    const worker = async () => {
      // Checked each time: carrying out many may outlive the reason to do so.
      while (left > 0 && !signal.aborted && this.#options.idle() === null) {
        // From the latest pass, which may have ended meanwhile.
        const [next] = this.#due.values();
        if (next === undefined) return;
        left -= 1;
        const { name } = next.object.metadata;
        this.#due.delete(name);
        this.#inHand.add(name);
        try {
          const context = {
            ...this.#options,
            attachedToClaim: this.#attachedToClaim,
            guestRunsElsewhere: this.#guestRunsElsewhere,
            wasSeenStopped: (podUid: string) => this.#options.caches.stoppedPods.has(podUid),
            machines: this.#options.caches.machines ?? NO_MEMORY,
            sharedReads: this.#sharedReads,
          };
          await this.#carryOut(context, next.object, next.verdict);
        } finally {
          this.#inHand.delete(name);
        }
      }
    };
    await Promise.all(Array.from({ length: CARRIED_OUT_AT_ONCE }, worker));
    if (left === 0 && this.#due.size > 0) this.#options.onDue?.();
  }

  async #carryOut(context: CarryOutContext, object: IPAllocation, verdict: Verdict): Promise<void> {
    const { log, onDone } = this.#options;
    const { network, address, owner } = object.spec;
    const fields = { network, address, owner, verdict: verdict.kind, why: verdict.why };
    const outcome = await carryOut(context, object, verdict);
    if (outcome.kind === "failed") {
      log.warn({ ...fields, problem: outcome.problem }, "not carried out; it comes again");
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

  #report(object: IPAllocation, verdict: Verdict, reported: Set<string>): void {
    const { name, uid } = object.metadata;
    reported.add(uid);
    if (this.#reported.has(uid)) return;
    this.#options.log.warn(
      { allocation: name, why: verdict.why },
      "nobody can tell what this allocation is; it is kept",
    );
  }
}
