import type { IPAllocation } from "../../store/kubernetes/objects.ts";
import type { Verdict } from "./relations.ts";

interface Observation {
  /** What was observed: of this very version of the object, this verdict. */
  readonly identity: string;
  readonly sinceMs: number;
  pass: number;
  passes: number;
}

/**
 * How long verdicts have stood, on a monotonic clock: one that changes something is carried out only when it has been
 * seen in two passes, and for as long as it asks.
 */
export class Observations {
  readonly #byName = new Map<string, Observation>();
  readonly #gapMsMax: number;
  #pass = 0;
  #passMs = Number.NEGATIVE_INFINITY;

  /** Between two passes further apart than `gapMsMax` nobody looked: what was seen before does not count. */
  constructor(gapMsMax: number) {
    this.#gapMsMax = gapMsMax;
  }

  get size(): number {
    return this.#byName.size;
  }

  beginPass(nowMs: number): void {
    if (nowMs - this.#passMs > this.#gapMsMax) this.#byName.clear();
    this.#passMs = nowMs;
    this.#pass += 1;
  }

  /** Takes in a verdict. Returns whether it has stood long enough. */
  see(object: IPAllocation, verdict: Verdict, nowMs: number): boolean {
    const { name } = object.metadata;
    if (!("afterSeconds" in verdict)) {
      this.#byName.delete(name);
      return false;
    }
    const identity = identityOf(object, verdict);
    let known = this.#byName.get(name);
    if (known?.identity !== identity) {
      known = { identity, sinceMs: nowMs, pass: 0, passes: 0 };
      this.#byName.set(name, known);
    }
    known.pass = this.#pass;
    known.passes += 1;
    return known.passes >= 2 && nowMs - known.sinceMs >= verdict.afterSeconds * 1_000;
  }

  /** Forgets what this pass did not see. */
  endPass(): void {
    for (const [name, { pass }] of this.#byName) if (pass !== this.#pass) this.#byName.delete(name);
  }

  forget(name: string): void {
    this.#byName.delete(name);
  }
}

/** Equal exactly when object and verdict are. A change of the object is a sign of life, so everything begins anew. */
export function identityOf({ metadata }: IPAllocation, verdict: Verdict): string {
  const keys = verdict.kind === "prune" ? verdict.keys : [];
  const after = "afterSeconds" in verdict ? verdict.afterSeconds : "";
  return [metadata.uid, metadata.resourceVersion, verdict.kind, verdict.why, after, ...keys].join(" ");
}
