import { expect, test } from "vitest";
import { PeriodicTask, type RestOptions } from "../../controller/periodic-task.ts";
import { sleep } from "../../platform/time.ts";
import { VirtualTime } from "../../platform/virtual-time.ts";

// In a time of its own: what a task is can be said to the millisecond.

const INTERVAL_MS = 10_000;

/** Work that takes `tookMs`, and when it began, ms. */
function paced(tookMs = 0, rest: RestOptions = {}, fails = false, nextMs = () => Number.POSITIVE_INFINITY) {
  const time = new VirtualTime();
  const clock = time.clock();
  const begunMs: number[] = [];
  const warnings: string[] = [];
  const work = async () => {
    begunMs.push(time.nowMs);
    await sleep(clock, tookMs);
    if (fails) throw new Error("refused");
  };
  const log = { warn: (_fields: unknown, message?: string) => void warnings.push(String(message)) };
  const task = new PeriodicTask({
    clock,
    what: "the work",
    intervalMs: INTERVAL_MS,
    work,
    log,
    rest,
    nextMs,
  });
  task.start();
  return { time, task, begunMs, warnings };
}

test("work begins at once, and an interval after its end", async () => {
  const { time, begunMs } = paced(500);
  await time.pass(35_000);
  expect(begunMs).toEqual([0, 10_500, 21_000, 31_500]);
});

test("a request between runs starts one at once, and not more often than the gap", async () => {
  const { time, task, begunMs } = paced();
  await time.pass(3_000);
  for (let asked = 0; asked < 10; asked += 1) {
    task.trigger();
    await time.pass(200);
  }
  expect(begunMs).toEqual([0, 3_000, 4_000, 5_000]);
});

test.each([
  [{}, 10_000, "five times what it took"],
  [{ restMsMax: 3_000 }, 3_000, "never longer than it may"],
  [{ restShare: 1 }, 2_000, "as long as it took"],
])("work that is requested all the time pauses between runs: %o", async (rest, restMs, reason) => {
  const { time, task, begunMs } = paced(2_000, rest);
  for (let passed = 0; passed < 13_000; passed += 100) {
    task.trigger();
    await time.pass(100);
  }
  expect(begunMs.slice(0, 2), reason).toEqual([0, 2_000 + restMs]);
});

test("work that one lost answer has kept for half a minute comes again half a minute later", async () => {
  const { time, begunMs } = paced(30_000);
  await time.pass(61_000);
  expect(begunMs).toEqual([0, 60_000]);
});

test("a run comes when it is needed, before the interval has passed, and not before the gap has", async () => {
  const dueMs = [4_200, 4_300, 30_000];
  const { time, begunMs } = paced(0, {}, false, () => dueMs.shift() ?? Number.POSITIVE_INFINITY);
  await time.pass(20_000);
  expect(begunMs).toEqual([0, 4_200, 5_200, 15_200]);
});

test("a failure is reported, and the next run comes", async () => {
  const { time, begunMs, warnings } = paced(0, {}, true);
  await time.pass(INTERVAL_MS);
  expect(begunMs).toEqual([0, INTERVAL_MS]);
  expect(warnings).toEqual(Array(2).fill("the work did not finish; it comes again"));
});

test.each([
  [1_500, "while it waits"],
  [500, "while it rests"],
])("a stop after %i ms, %s, does not wait for the interval", async (ms) => {
  const { time, task, begunMs } = paced();
  await time.pass(ms);
  await time.run(task.stop());
  expect(time.nowMs).toBe(ms);
  await time.pass(60_000);
  expect(begunMs).toEqual([0]);
});
