import type { Sample } from "./recorder.ts";

/** Resident memory after the last quarter by that after the first. */
const MEMORY_GROWTH_MAX = 1.1;
/** Connections of requests that are under way come and go. */
const DESCRIPTORS_MORE_MAX = 8;
/** Which part of a quarter, at its end, "after" it is: single looks differ by what was collected last. */
const END_PART = 0.2;
/**
 * For some eight minutes memory grows because a process is young: its code is compiled, its heap finds its size. A run
 * whose first quarter ends before tells nothing.
 */
export const JUDGED_MINUTES_MIN = 30;

/** What a process took after the first and after the last quarter of a run. */
export interface Growth {
  readonly rssBytes: readonly [number, number];
  /** Last by first. */
  readonly ratio: number;
  readonly descriptors: readonly [number, number];
  readonly loopP99Ms: { readonly median: number; readonly max: number };
  readonly loopMaxMs: number;
}

/** `lengthMs`: of the run. */
export function growthOf(samples: readonly Sample[], lengthMs: number): Growth {
  const quarterMs = lengthMs / 4;
  const after = (quarter: number, measure: (sample: Sample) => number): number => {
    const endMs = quarter * quarterMs;
    const from = endMs - END_PART * quarterMs;
    return median(samples.filter(({ atMs }) => atMs > from && atMs <= endMs).map(measure));
  };
  const rssBytes = [after(1, (one) => one.rssBytes), after(4, (one) => one.rssBytes)] as const;
  const p99s = samples.flatMap(({ loopP99Ms }) => loopP99Ms ?? []);
  return {
    rssBytes,
    ratio: rssBytes[1] / rssBytes[0],
    descriptors: [after(1, (one) => one.descriptors), after(4, (one) => one.descriptors)],
    loopP99Ms: { median: median(p99s), max: Math.max(...p99s) },
    loopMaxMs: Math.max(...samples.flatMap(({ loopMaxMs }) => loopMaxMs ?? [])),
  };
}

/** What is wrong with it: nothing, or sentences. For a process that was never restarted. */
export function judgeGrowth(name: string, { ratio, descriptors }: Growth): string[] {
  const wrong: string[] = [];
  // No sample is no proof.
  if (!(ratio <= MEMORY_GROWTH_MAX))
    wrong.push(`${name}: resident memory after the last quarter is ${ratio.toFixed(3)} × that after the first`);
  if (!(descriptors[1] - descriptors[0] <= DESCRIPTORS_MORE_MAX))
    wrong.push(`${name}: descriptors grew from ${descriptors[0]} to ${descriptors[1]}`);
  return wrong;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
