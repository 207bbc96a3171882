import type { Verdict } from "../claims/reasons/verdict.ts";
import type { IPAllocation } from "../kube/objects.ts";

interface Observation {
  /** What was observed: of this very version of the object, this verdict. */
  readonly identity: string;
  readonly afterMs: number;
  /** When it was first seen; a gap does not change it. */
  readonly wantedSinceMs: number;
  /** Since when it has been seen without a gap. */
  sinceMs: number;
  pass: number;
  passes: number;
  /** The pass after which it was tried last; 0: never. */
  tried: number;
}

/**
 * How long verdicts have stood, on a monotonic clock: a verdict that changes something is carried out only when it was
 * seen in two passes, and for as long as it requires.
 */
export class Observations {
  readonly #byName = new Map<string, Observation>();
  readonly #gapMsMax: number;
  #pass = 0;
  #endMs = Number.NEGATIVE_INFINITY;

  /** A pass that begins more than `gapMsMax` after the end of the last one does not continue its observations. */
  constructor(gapMsMax: number) {
    this.#gapMsMax = gapMsMax;
  }

  beginPass(nowMs: number): void {
    if (nowMs - this.#endMs > this.#gapMsMax) {
      for (const known of this.#byName.values()) {
        known.passes = 0;
        known.sinceMs = Number.POSITIVE_INFINITY;
      }
    }
    this.#pass += 1;
  }

  /** Notes a verdict. Returns whether it has stood long enough. */
  see({ metadata: { name, uid, resourceVersion } }: IPAllocation, verdict: Verdict, nowMs: number): boolean {
    if (!("afterSeconds" in verdict)) {
      this.#byName.delete(name);
      return false;
    }
    const identity = identityOf({ uid, resourceVersion }, verdict);
    let known = this.#byName.get(name);
    if (known?.identity !== identity) {
      const afterMs = verdict.afterSeconds * 1_000;
      known = { identity, afterMs, wantedSinceMs: nowMs, sinceMs: nowMs, pass: 0, passes: 0, tried: 0 };
      this.#byName.set(name, known);
    }
    known.sinceMs = Math.min(known.sinceMs, nowMs);
    known.pass = this.#pass;
    known.passes += 1;
    return known.passes >= 2 && nowMs - known.sinceMs >= known.afterMs;
  }

  /** Forgets what this pass did not see. */
  endPass(nowMs: number): void {
    for (const [name, { pass }] of this.#byName) if (pass !== this.#pass) this.#byName.delete(name);
    this.#endMs = nowMs;
  }

  forget(name: string): void {
    this.#byName.delete(name);
  }

  /** It was tried, and is still due. */
  noteTried(name: string): void {
    const known = this.#byName.get(name);
    if (known !== undefined) known.tried = this.#pass;
  }

  /** The pass after which it was tried last; 0: never. */
  triedIn(name: string): number {
    return this.#byName.get(name)?.tried ?? 0;
  }

  /** When the next verdict has stood long enough, of those that have not; Infinity: none will. Ms of the clock. */
  nextDueMs(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { sinceMs, afterMs, passes } of this.#byName.values()) {
      const dueMs = sinceMs + afterMs;
      if (passes < 2 || dueMs > nowMs) nextMs = Math.min(nextMs, dueMs);
    }
    return nextMs;
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
