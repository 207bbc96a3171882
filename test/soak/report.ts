import type { Growth } from "./growth.ts";
import type { Latency } from "./latency.ts";
import type { Sample } from "./recorder.ts";
import type { Tally } from "./tally.ts";

/** A process in the report. */
interface ProcessReport extends Growth {
  readonly name: string;
  /** Whether its growth is judged: it lived as long as the run. */
  readonly isJudged: boolean;
  readonly restarts: number;
  readonly samples: readonly Sample[];
  /** What it logged, of all its lives. */
  readonly log: string;
}

/** Everything that a run found. */
export interface Report {
  readonly seed: number;
  readonly minutes: number;
  readonly verdict: "clean" | "FAILED";
  readonly violations: readonly string[];
  readonly faults: Readonly<Record<string, number>>;
  readonly struck: Tally["struck"];
  readonly requests: Readonly<Record<string, number>>;
  readonly refusals: Readonly<Record<string, number>>;
  readonly verbs: Tally["verbs"];
  /** Of requests to the API server, by the daemons that were never killed. */
  readonly latencies: readonly Latency[];
  readonly processes: readonly ProcessReport[];
}

/** As people read it. */
export function textOf(report: Report): string {
  const { seed, minutes, verdict, violations, faults, requests, refusals, verbs, processes } = report;
  const { latencies } = report;
  const counts = (all: Readonly<Record<string, number>>) =>
    Object.entries(all)
      .sort(([, a], [, b]) => b - a)
      .map(([what, count]) => [String(count), what]);
  return [
    table(
      [
        "process",
        "",
        "restarts",
        "RSS MB after 1/4",
        "after 4/4",
        "ratio",
        "descriptors",
        "loop p99 ms",
        "worst",
        "longest turn ms",
      ],
      processes.map((one) => [
        one.name,
        one.isJudged ? "judged" : "",
        String(one.restarts),
        ...one.rssBytes.map((bytes) => (bytes / 1e6).toFixed(1)),
        one.ratio.toFixed(3),
        one.descriptors.join(" → "),
        one.loopP99Ms.median.toFixed(1),
        one.loopP99Ms.max.toFixed(1),
        one.loopMaxMs.toFixed(0),
      ]),
    ),
    table(
      ["verb", "count", "median ms", "p99", "longest"],
      verbs.map(({ verb, ...rest }) => [verb, ...Object.values(rest).map(String)]),
    ),
    table(
      ["API request", "count", "median ms at most", "p99 at most"],
      latencies.map(({ verb, count, medianMs, p99Ms }) => [verb, ...[count, medianMs, p99Ms].map(String)]),
    ),
    table(["faults", "kind"], counts(faults)),
    table(["requests", "verb"], counts(requests)),
    table(["refusals", "kind"], counts(refusals)),
    ...violations.map((text) => `VIOLATION ${text}`),
    `soak of ${minutes} minutes, seed ${seed}: ${verdict}, ${violations.length} violations`,
  ].join("\n\n");
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => (row[at] ?? "").length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd();
  return [head, ...rows].map(line).join("\n");
}
