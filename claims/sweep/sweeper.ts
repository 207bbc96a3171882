import type { KubeApi } from "../../store/kubernetes/kube-api.ts";
import type { IPAllocation } from "../../store/kubernetes/objects.ts";
import { Breather } from "../kube/breather.ts";
import { attachedClaims, type Caches, cachedFacts } from "./caches.ts";
import { type CarryOutContext, carryOut } from "./carry-out.ts";
import { Observations } from "./observations.ts";
import { judge, type Rules, type Verdict } from "./relations.ts";

/** Verdicts carried out side by side: each costs a few reads of the API server, which others need too. */
const CARRIED_OUT_AT_ONCE = 4;
/** Verdicts carried out in one pass; the rest has its turn in the next one, with a fresh look at everything. */
const CARRIED_OUT_PER_PASS = 400;
/** Passes may be this many intervals apart, and still count as having looked all the time. */
const GAP_INTERVALS_MAX = 3;
/** The least of that, ms: a server that restarts must not let every grace begin anew. */
const GAP_MS_MIN = 30_000;

interface SweeperLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface SweeperOptions {
  readonly api: KubeApi;
  readonly caches: Caches;
  readonly rules: Rules;
  readonly intervalSeconds: number;
  /** Why nothing may be freed now: a cache that is not complete, a server that is away, another controller. null: go on. */
  readonly idle: () => string | null;
  /** performance.now(), ms */
  readonly monotonicMs: () => number;
  /** RFC 3339, for people. */
  readonly time: () => string;
  readonly log: SweeperLog;
  /** After a verdict was carried out. */
  readonly onDone?: (object: IPAllocation, verdict: Verdict) => void;
}

/** The repair loop: judges every allocation again and again, and carries out what has stood long enough. */
export class Sweeper {
  readonly #options: SweeperOptions;
  readonly #observations: Observations;
  /** UIDs of allocations that nobody understands, each said once. */
  #reported = new Set<string>();
  #counts: ReadonlyMap<string, number> = new Map();

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

  /** One pass over everything; not twice at once. Ends early when the signal aborts. */
  async pass(signal: AbortSignal): Promise<void> {
    const { caches, rules, log, idle, monotonicMs } = this.#options;
    const reason = idle();
    if (reason !== null) {
      log.debug({ reason }, "no sweep");
      return;
    }
    const facts = cachedFacts(caches);
    const due: { object: IPAllocation; verdict: Verdict }[] = [];
    const counts = new Map<string, number>();
    const reported = new Set<string>();
    const breather = new Breather();
    const nowMs = monotonicMs();
    this.#observations.beginPass(nowMs);
    for (const { object } of [...caches.allocations.items.values()]) {
      const verdict = judge(object, facts, rules);
      const word = `${verdict.kind} ${verdict.why}`;
      counts.set(word, (counts.get(word) ?? 0) + 1);
      if (verdict.kind === "report") this.#report(object, verdict, reported);
      if (this.#observations.see(object, verdict, nowMs)) due.push({ object, verdict });
      if (breather.due) await breather.breathe();
      if (signal.aborted) return;
    }
    this.#observations.endPass();
    this.#counts = counts;
    this.#reported = reported;
    await this.#carryOutAll(due.slice(0, CARRIED_OUT_PER_PASS), signal);
  }

  async #carryOutAll(
    due: readonly { object: IPAllocation; verdict: Verdict }[],
    signal: AbortSignal,
  ): Promise<void> {
    const queue = [...due];
    const attachedToClaim = attachedClaims(this.#options.caches.allocations.items);
    const context: CarryOutContext = { ...this.#options, attachedToClaim };
    const worker = async () => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        // Asked each time: a pass over many may outlive what it began with.
        if (signal.aborted || this.#options.idle() !== null) return;
        await this.#carryOut(context, next.object, next.verdict);
      }
    };
    await Promise.all(Array.from({ length: CARRIED_OUT_AT_ONCE }, worker));
  }

  async #carryOut(context: CarryOutContext, object: IPAllocation, verdict: Verdict): Promise<void> {
    const { log, onDone } = this.#options;
    const { network, address, owner } = object.spec;
    const fields = { network, address, owner, verdict: verdict.kind, why: verdict.why };
    const outcome = await carryOut(context, object, verdict);
    if (outcome.kind === "failed") {
      log.warn({ ...fields, problem: outcome.problem }, "not carried out; it comes again");
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
