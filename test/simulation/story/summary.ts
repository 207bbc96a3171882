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

/** A request that only reads, and was answered as it should be. */
const READ = /: (GET|list|watch) \/\S*: (200|404)$/;

/** A story that somebody can read: what was asked only to know is left out. */
export function storyOf(lines: readonly string[]): string {
  const telling = lines.filter((line) => !READ.test(line));
  const left = Math.max(0, telling.length - STORY_LINES_MAX);
  const remark = `  (of ${lines.length} lines ${lines.length - telling.length} that only read, and the first ${left}, are left out)`;
  return [remark, ...telling.slice(left)].join("\n");
}
