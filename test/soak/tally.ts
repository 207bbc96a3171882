/** Which part of a refusal's message names its kind: names, addresses and numbers differ each time. */
const NAMES = /\S*[/\d]\S*/g;
const KIND_CHARACTERS_MAX = 90;

/** How often what happened in a run, and how long the verbs of a runtime took. */
export class Tally {
  readonly faults = new Map<string, number>();
  /** Every fault, when it began. */
  readonly struck: { readonly atMs: number; readonly kind: string; readonly target: string }[] = [];
  /** Requests to the API server, by verb. */
  readonly requests = new Map<string, number>();
  /** Refusals of the product, by verb and kind. */
  readonly refusals = new Map<string, number>();
  readonly #startMs = performance.now();
  readonly #tookMs = new Map<string, number[]>();

  /** Since the start of the run. */
  get nowMs(): number {
    return Math.round(performance.now() - this.#startMs);
  }

  fault(kind: string, target: string): void {
    count(this.faults, kind);
    this.struck.push({ atMs: this.nowMs, kind, target });
  }

  request(method: string, path: string): void {
    count(this.requests, verbOf(method, path));
  }

  served(verb: string, isOk: boolean, ms: number): void {
    const key = isOk ? verb : `${verb} refused`;
    const took = this.#tookMs.get(key);
    if (took === undefined) this.#tookMs.set(key, [ms]);
    else took.push(ms);
  }

  refused(verb: string, message: string): void {
    count(this.refusals, `${verb}: ${message.replaceAll(NAMES, "…").slice(0, KIND_CHARACTERS_MAX)}`);
  }

  /** By verb of the runtime: how many, and how long they took. */
  get verbs(): { verb: string; count: number; medianMs: number; p99Ms: number; maxMs: number }[] {
    return [...this.#tookMs].map(([verb, took]) => {
      const sorted = [...took].sort((a, b) => a - b);
      const at = (part: number) => Math.round(sorted[Math.floor((sorted.length - 1) * part)] ?? 0);
      return { verb, count: sorted.length, medianMs: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
    });
  }
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** As the audit log of an API server calls it. */
function verbOf(method: string, path: string): string {
  if (method !== "GET") return { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" }[method] ?? method;
  if (/[?&]watch=(1|true)/.test(path)) return "watch";
  return /\/[^/?]*s(\?|$)/.test(path) ? "list" : "get";
}
