import { expect, test } from "vitest";
import { latenciesIn } from "./latency.ts";

function bucket(verb: string, status: string, le: string, count: number): string {
  return `holdfast_api_request_duration_seconds_bucket{le="${le}",verb="${verb}",status="${status}"} ${count}\n`;
}

test("the requests of all daemons and of every status are one histogram for each verb", () => {
  const histogram = (status: string, ...[fast, slow, all]: [number, number, number]) =>
    bucket("get", status, "0.01", fast) + bucket("get", status, "0.5", slow) + bucket("get", status, "+Inf", all);
  const one = `# HELP some\n${histogram("200", 90, 100, 100)}`;
  const other = histogram("away", 0, 0, 10);
  expect(latenciesIn([one, other, bucket("create", "201", "+Inf", 1)])).toEqual([
    { verb: "get", count: 110, medianMs: 10, p99Ms: Number.POSITIVE_INFINITY },
    { verb: "create", count: 1, medianMs: Number.POSITIVE_INFINITY, p99Ms: Number.POSITIVE_INFINITY },
  ]);
  expect(latenciesIn([one])).toEqual([{ verb: "get", count: 100, medianMs: 10, p99Ms: 500 }]);
});

test("metrics without requests have no latencies", () => {
  expect(latenciesIn(["", "up 1\n"])).toEqual([]);
});
