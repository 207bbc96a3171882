import type { Outcome, RunOptions } from "../engine/run.ts";

/** What is printed at the end of a run. */
export function summaryOf({
  options,
  outcome,
  elapsedMs,
}: {
  readonly options: RunOptions;
  readonly outcome: Outcome;
  readonly elapsedMs: number;
}): string {
  const { steps, virtualMs, digest, counts } = outcome;
  const rate = Math.round(steps / (elapsedMs / 1_000));
  const rows = counts.all.map(([name, count]) => `  ${name.padEnd(40)} ${`${count}`.padStart(9)}`);
  return [
    ...rows,
    "",
    `seed ${options.seed}: ${steps} steps with ${options.nodes} nodes, ${Math.round(virtualMs / 1_000)} s of the world`,
    `${rate} steps/s (${(elapsedMs / 1_000).toFixed(1)} s); history ${digest}`,
  ].join("\n");
}
