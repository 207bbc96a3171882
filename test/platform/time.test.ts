import { expect, test } from "vitest";
import { interval, randomUuid, sleep, systemClock, timeoutSignal } from "../../platform/time.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

test("a timer of the system's clock waits for longer than Node can, and does not fire at once", async () => {
  const fired: string[] = [];
  const far = systemClock.timer(2 ** 40, () => fired.push("far"));
  const past = new Promise<void>((resolve) => {
    systemClock.timer(-5, () => {
      fired.push("past");
      resolve();
    });
  });
  await past;
  far.cancel();
  expect(fired).toEqual(["past"]);
});

test("a timer that was cancelled cannot be restarted", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  let count = 0;
  for (const one of [clock, systemClock]) {
    const timer = one.timer(1, () => {
      count += 1;
    });
    timer.cancel();
    timer.restart();
  }
  await time.pass(100);
  await sleep(systemClock, 20);
  expect(count).toBe(0);
});

test("timers fire by their time, and those of one instant in the order in which they were set", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  const seen: string[] = [];
  const note = (what: string) => () => seen.push(`${what} at ${time.nowMs}`);
  clock.timer(30, note("c"));
  clock.timer(10, note("a"));
  clock.timer(10, note("b"));
  clock.immediate(note("now"));
  const put = clock.timer(20, note("put off"));
  clock.timer(15, () => put.restart());
  await time.pass(40);
  expect(seen).toEqual(["now at 0", "a at 10", "b at 10", "c at 30", "put off at 35"]);
  expect(time.nowMs).toBe(40);
});

test("an interval repeats until it is cancelled, a sleep can end early, and a time limit aborts", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  const seen: number[] = [];
  const timer = interval(clock, 100, () => seen.push(time.nowMs));
  await time.pass(350);
  timer.cancel();
  await time.pass(500);
  expect(seen).toEqual([100, 200, 300]);

  const early = new AbortController();
  const slept = sleep(clock, 1_000, early.signal).then(() => time.nowMs);
  clock.timer(10, () => early.abort());
  expect(await time.run(slept)).toBe(860);

  const limit = timeoutSignal(clock, 50);
  await time.pass(49);
  expect(limit.aborted).toBe(false);
  await time.pass(1);
  expect(limit.reason).toMatchObject({ name: "TimeoutError" });
});

test("the clocks of one virtual time differ in origin, rate and wall time, and agree on the order of events", async () => {
  const time = new VirtualTime();
  const slow = time.clock({ rate: 0.5, originMs: 7 });
  const fast = time.clock({ rate: 2, wallMs: 1_000 });
  const seen: string[] = [];
  slow.timer(100, () => seen.push("slow"));
  fast.timer(100, () => seen.push("fast"));
  await time.pass(200);
  expect(seen).toEqual(["fast", "slow"]);
  expect([slow.monotonicMs(), fast.monotonicMs(), fast.wallMs()]).toEqual([107, 400, 1_400]);
});

test("random numbers follow from the seed", () => {
  const drawn = (seed: number) => {
    const clock = new VirtualTime(seed).clock();
    return [clock.random(), randomUuid(clock), clock.randomBytes(4).toString("hex")];
  };
  expect(drawn(7)).toEqual(drawn(7));
  expect(drawn(7)).not.toEqual(drawn(8));
  expect(drawn(7)[1]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("waiting for a condition that no timer can bring about is an error", async () => {
  await expect(new VirtualTime().until(() => false, "the bus")).rejects.toThrow("nothing will ever bring the bus");
});
