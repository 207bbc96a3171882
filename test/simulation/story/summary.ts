import type { Outcome, RunOptions } from "../engine/run.ts";

/** The end of a story explains itself better than its beginning. */
const STORY_LINES_MAX = 400;

export interface Told {
  readonly options: RunOptions;
  readonly outcome: Outcome;
  /** What it took of a processor, garbage collection on another one included. */
  readonly processorMs: number;
  /** What was not exercised. */
  readonly missing: readonly string[];
}

/** What is printed at the end of a run. */
export function summaryOf({ options, outcome, processorMs, missing }: Told): string {
  const { steps, virtualMs, digest, counts } = outcome;
  const rate = Math.round(steps / (processorMs / 1_000));
  return [
    ...counts.all.map(([name, count]) => `  ${name.padEnd(40)} ${`${count}`.padStart(9)}`),
    ...missing.map((name) => `  ${name.padEnd(40)} ${"MISSING".padStart(9)}`),
    "",
    `seed ${options.seed}: ${steps} steps with ${options.nodes} nodes, ${Math.round(virtualMs / 1_000)} s of the world`,
    `${rate} steps/s (${(processorMs / 1_000).toFixed(1)} s of a processor); history ${digest}`,
    ...(missing.length > 0 ? [`${missing.length} of what has to be exercised was not`] : []),
  ].join("\n");
}

/** A story that somebody can read. */
export function storyOf(lines: readonly string[]): string {
  const left = lines.length - STORY_LINES_MAX;
  if (left <= 0) return lines.join("\n");
  return [`  (${left} lines before; STORY=1 prints them)`, ...lines.slice(-STORY_LINES_MAX)].join("\n");
}
