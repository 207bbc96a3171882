/** How long requests of one verb took, as far as the buckets of a histogram tell. */
export interface Latency {
  readonly verb: string;
  readonly count: number;
  /** The bucket's upper bound; Infinity: above all. */
  readonly medianMs: number;
  readonly p99Ms: number;
}

const BUCKET = /^holdfast_api_request_duration_seconds_bucket\{(.*)\} (\S+)$/gm;

/** Requests to the API server by verb, out of the metrics of several daemons. */
export function latenciesIn(metrics: readonly string[]): Latency[] {
  const verbs = new Map<string, Map<number, number>>();
  for (const text of metrics) {
    for (const [, labels = "", value] of text.matchAll(BUCKET)) {
      const label = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(labels)?.[1] ?? "";
      const buckets = verbs.get(label("verb")) ?? new Map<number, number>();
      verbs.set(label("verb"), buckets);
      const bound = label("le") === "+Inf" ? Number.POSITIVE_INFINITY : Number(label("le")) * 1_000;
      buckets.set(bound, (buckets.get(bound) ?? 0) + Number(value));
    }
  }
  return [...verbs].map(([verb, buckets]) => {
    const rising = [...buckets].sort(([a], [b]) => a - b);
    const count = rising.at(-1)?.[1] ?? 0;
    const within = (part: number) => rising.find(([, below]) => below >= part * count)?.[0] ?? Number.NaN;
    return { verb, count, medianMs: within(0.5), p99Ms: within(0.99) };
  });
}
