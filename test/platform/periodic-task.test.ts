import { expect, test } from "vitest";
import { logFailure, PeriodicTask, type PeriodicTaskOptions, type RestOptions } from "../../platform/periodic-task.ts";
import { sleep } from "../../platform/time.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

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
    intervalMs: INTERVAL_MS,
    work,
    rest,
    nextMs,
    onFailure: logFailure(log, "the work"),
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
  expect(warnings).toEqual(Array(2).fill("the work did not finish; will retry"));
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

/** A task without an interval, and when it ran, ms. */
function triggered(options: Partial<PeriodicTaskOptions> = {}) {
  const time = new VirtualTime();
  const begunMs: number[] = [];
  const work = () => void begunMs.push(time.nowMs);
  return { time, begunMs, task: new PeriodicTask({ clock: time.clock(), work, ...options }) };
}

test("a task without an interval runs only when it is triggered", async () => {
  const { time, task, begunMs } = triggered();
  task.start();
  await time.pass(60_000);
  task.trigger();
  await time.pass(60_000);
  expect(begunMs).toEqual([60_000]);
});

test.each([
  ["without", {}, [1_000]],
  ["with", { intervalMs: 40_000 }, [1_000, 41_000]],
])("a task %s an interval that was triggered before its start runs at its start", async (_, options, expected) => {
  const { time, task, begunMs } = triggered(options);
  task.trigger();
  await time.pass(1_000);
  expect(begunMs).toEqual([]);
  task.start();
  await time.pass(60_000);
  expect(begunMs).toEqual(expected);
});

test("triggers that come together have one run, the settling time after the first", async () => {
  const { time, task, begunMs } = triggered({ settleMs: 50 });
  task.start();
  for (let asked = 0; asked < 8; asked += 1) {
    task.trigger();
    await time.pass(20);
  }
  expect(begunMs).toEqual([50, 110]);
  await time.pass(1_000);
  expect(begunMs).toEqual([50, 110, 170]);
});

test("the earliest of several triggers counts", async () => {
  const { time, task, begunMs } = triggered();
  task.start();
  task.trigger(500);
  task.trigger(200);
  task.trigger(400);
  await time.pass(1_000);
  expect(begunMs).toEqual([200]);
});

test("a trigger during a run, also from the run itself, has another run after it, and never one beside it", async () => {
  const endedMs: number[] = [];
  let running = 0;
  const { time, task } = triggered({
    work: async () => {
      running += 1;
      expect(running).toBe(1);
      if (endedMs.length < 2) task.trigger();
      await sleep(time.clock(), 100);
      running -= 1;
      endedMs.push(time.nowMs);
    },
  });
  task.start();
  task.trigger();
  await time.pass(1_000);
  expect(endedMs).toEqual([100, 200, 300]);
});

test("a run that has failed is repeated after the retry time, and no trigger shortens it", async () => {
  const failures: string[] = [];
  const { time, task, begunMs } = triggered({
    retryMs: 1_000,
    work: () => {
      begunMs.push(time.nowMs);
      if (begunMs.length < 3) throw new Error("refused");
    },
    onFailure: ({ message }) => void failures.push(message),
  });
  task.start();
  task.trigger();
  await time.pass(300);
  task.trigger();
  await time.pass(10_000);
  expect(begunMs).toEqual([0, 1_000, 2_000]);
  expect(failures).toEqual(["refused", "refused"]);
});

test("the first run comes as late as the start says, and a stop waits for the run under way", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  const endedMs: number[] = [];
  const work = async () => {
    await sleep(clock, 2_000);
    endedMs.push(time.nowMs);
  };
  const task = new PeriodicTask({ clock, intervalMs: 1_000, work });
  task.start(500);
  await time.pass(1_000);
  await time.run(task.stop());
  expect(endedMs).toEqual([2_500]);
  await time.pass(60_000);
  expect(endedMs).toEqual([2_500]);
});
