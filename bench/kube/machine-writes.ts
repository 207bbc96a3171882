import { setTimeout as sleep } from "node:timers/promises";
import type { TestCluster } from "../../test/harness/cluster.ts";
import type { WriteCounts } from "../../test/harness/kube-metrics.ts";
import { atMost, type Line, number } from "../line.ts";

/** Three passes of everything that looks at all objects. */
const REST_MS = 32_000;
/** What the work before has left is written by then. */
export const QUIET_MS = 8_000;

/** Writes of a controller that has nothing to do. */
export async function restLines(cluster: TestCluster, what: string): Promise<Line[]> {
  await sleep(QUIET_MS);
  const before = await cluster.writes();
  await sleep(REST_MS);
  const after = await cluster.writes();
  const counts = difference(before, after).filter(([name]) => name !== "leases" && name !== "secrets");
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const secrets = writesOf(before, after, "secrets") / (REST_MS / 1_000);
  const seconds = `${REST_MS / 1_000} s, three passes`;
  return [
    atMost(total, 0, "writes", {
      what: `at rest with ${what}`,
      against: `${seconds}; ${describeWrites(before, after)}`,
    }),
    atMost(secrets, 5, "/s", {
      what: "creates of Secrets meanwhile, to find those that are missing",
      against: seconds,
    }),
  ];
}

export type Counts = Readonly<Record<string, WriteCounts>>;

function difference(before: Counts, after: Counts): [string, number][] {
  return Object.keys(after)
    .map((name): [string, number] => [name, writesOf(before, after, name)])
    .filter(([, count]) => count > 0);
}

export function writesOf(before: Counts, after: Counts, name: string): number {
  return (after[name]?.total ?? 0) - (before[name]?.total ?? 0);
}

export function describeWrites(before: Counts, after: Counts): string {
  return difference(before, after)
    .map(([name, count]) => `${name} ${number(count)}`)
    .join(", ");
}
