import type { Verdict } from "../../claims/reasons/verdict.ts";
import type { IPAllocation } from "../../kube/objects.ts";

interface Observation {
  /** What was observed: of this very version of the object, this verdict. */
  readonly identity: string;
  readonly afterMs: number;
  /** When it was first seen; a gap does not change it. */
  readonly wantedSinceMs: number;
  /** Since when it has stood without a gap. */
  sinceMs: number;
  sights: number;
  /** It was tried, and is still due. */
  isTried: boolean;
}

/**
 * How long verdicts have stood, on a monotonic clock: a verdict that changes something is carried out only when it was
 * seen twice, and for as long as it requires. In between nothing is seen as long as nothing changes: whoever judges is
 * told of every change, and looks into it in turns. Where there was no turn for too long, changes may have been missed.
 */
export class Observations {
  readonly #byName = new Map<string, Observation>();
  readonly #gapMsMax: number;
  #endMs = Number.NEGATIVE_INFINITY;

  /** A turn that begins more than `gapMsMax` after the end of the last one does not continue its observations. */
  constructor(gapMsMax: number) {
    this.#gapMsMax = gapMsMax;
  }

  /** Whether any verdict is to be carried out once it has stood for long enough. */
  get isAny(): boolean {
    return this.#byName.size > 0;
  }

  /** Returns the names of which the observation begins again, with their next sight. */
  beginTurn(nowMs: number): Iterable<string> {
    if (nowMs - this.#endMs <= this.#gapMsMax) return [];
    for (const known of this.#byName.values()) {
      known.sights = 0;
      known.sinceMs = Number.POSITIVE_INFINITY;
    }
    return this.#byName.keys();
  }

  endTurn(nowMs: number): void {
    this.#endMs = nowMs;
  }

  /** When it will have stood long enough, ms of the clock: up to `nowMs` it has; Infinity: nothing is to be done. */
  see({ metadata: { name, uid, resourceVersion } }: IPAllocation, verdict: Verdict, nowMs: number): number {
    if (!("afterSeconds" in verdict)) {
      this.#byName.delete(name);
      return Number.POSITIVE_INFINITY;
    }
    const identity = identityOf({ uid, resourceVersion }, verdict);
    let known = this.#byName.get(name);
    if (known?.identity !== identity) {
      const afterMs = verdict.afterSeconds * 1_000;
      known = { identity, afterMs, wantedSinceMs: nowMs, sinceMs: nowMs, sights: 0, isTried: false };
      this.#byName.set(name, known);
    }
    known.sinceMs = Math.min(known.sinceMs, nowMs);
    known.sights += 1;
    const isDue = known.sights >= 2 && nowMs - known.sinceMs >= known.afterMs;
    return isDue ? nowMs : Math.max(nowMs + 1, known.sinceMs + known.afterMs);
  }

  forget(name: string): void {
    this.#byName.delete(name);
  }

  noteTried(name: string): void {
    const known = this.#byName.get(name);
    if (known !== undefined) known.isTried = true;
  }

  wasTried(name: string): boolean {
    return this.#byName.get(name)?.isTried ?? false;
  }

  /** How much longer than required the oldest verdict has stood, seconds; 0 when none has. */
  overdueSeconds(nowMs: number): number {
    let oldestMs = nowMs;
    for (const { wantedSinceMs, afterMs } of this.#byName.values())
      oldestMs = Math.min(oldestMs, wantedSinceMs + afterMs);
    return (nowMs - oldestMs) / 1_000;
  }
}

/** Equal exactly when object and verdict are. A changed object is a sign of life: the observation begins again. */
export function identityOf(
  { uid, resourceVersion }: { readonly uid: string; readonly resourceVersion: string },
  verdict: Verdict,
): string {
  const keys = verdict.kind === "prune" ? verdict.keys : [];
  const after = "afterSeconds" in verdict ? verdict.afterSeconds : "";
  return [uid, resourceVersion, verdict.kind, verdict.why, after, ...keys].join(" ");
}
