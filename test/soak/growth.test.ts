import { expect, test } from "vitest";
import { growthOf, judgeGrowth } from "./growth.ts";
import type { Sample } from "./recorder.ts";

const LENGTH_MS = 400_000;

/** A look each second, with what the two functions say. */
function samples(rssBytes: (part: number) => number, descriptors: (part: number) => number): Sample[] {
  return Array.from({ length: LENGTH_MS / 1_000 }, (_, index) => {
    const atMs = (index + 1) * 1_000;
    const part = atMs / LENGTH_MS;
    const loop = { loopP99Ms: 12, loopMaxMs: index === 7 ? 300 : 20, heapBytes: null, externalBytes: null };
    return { atMs, rssBytes: rssBytes(part), descriptors: descriptors(part), ...loop };
  });
}

const judged = (all: readonly Sample[]) => judgeGrowth("node", growthOf(all, LENGTH_MS));

test("memory that grows by a tenth after the first quarter is a violation, what came before it is none", () => {
  const steady = () => 30;
  const warm = samples((part) => (part < 0.15 ? 50e6 : 90e6), steady);
  expect(judged(warm)).toEqual([]);
  expect(judged(samples((part) => 90e6 * (1 + 0.1 * part), steady))).toEqual([]);
  expect(judged(samples((part) => 90e6 * (1 + 0.2 * part), steady))).toEqual([expect.stringContaining("memory")]);
});

test("descriptors that are not given back are a violation", () => {
  expect(
    judged(
      samples(
        () => 90e6,
        (part) => 30 + Math.round(part * 20),
      ),
    ),
  ).toEqual(["node: descriptors grew from 35 to 50"]);
});

test("a process of which nothing was seen is no proof that it does not grow", () => {
  expect(judged([])).toHaveLength(2);
});

test("the delay of the event loop is the median and the longest of all looks", () => {
  const { loopP99Ms, loopMaxMs } = growthOf(
    samples(
      () => 90e6,
      () => 30,
    ),
    LENGTH_MS,
  );
  expect({ ...loopP99Ms, loopMaxMs }).toEqual({ median: 12, max: 12, loopMaxMs: 300 });
});
