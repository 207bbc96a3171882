import { expect, test } from "vitest";
import { VirtualTime } from "../../../platform/virtual-time.ts";
import { MachineClock, ProcessClock } from "./clocks.ts";

function machine(rate = 1) {
  const time = new VirtualTime(1);
  const clock = new MachineClock(time.clock({ rate }));
  return { time, clock, process: new ProcessClock(clock) };
}

test("nothing comes to a killed process, neither what it waited for nor what it asks for later", async () => {
  const { time, process } = machine();
  const fired: string[] = [];
  process.timer(10, () => fired.push("before"));
  process.kill();
  process.timer(10, () => fired.push("after"));
  await time.pass(100);
  expect(fired).toEqual([]);
});

test("what became due while a process was stopped comes in its order when it goes on", async () => {
  const { time, process } = machine();
  const fired: number[] = [];
  for (const ms of [20, 10, 500]) process.timer(ms, () => fired.push(ms));
  process.stop();
  await time.pass(100);
  expect(fired).toEqual([]);
  process.continue();
  await time.pass(1);
  expect(fired).toEqual([10, 20]);
  await time.pass(500);
  expect(fired).toEqual([10, 20, 500]);
});

test("a suspended machine's monotonic clock stands still, its boot clock goes on, and its timers come late", async () => {
  const { time, clock, process } = machine(2);
  let firedMs = -1;
  process.timer(1_000, () => {
    firedMs = process.monotonicMs();
  });
  clock.suspend();
  process.stop();
  await time.pass(10_000);
  clock.resume();
  process.continue();
  expect(clock.monotonicMs()).toBe(0);
  expect(clock.bootUs()).toBe(20_000_000);
  await time.pass(499);
  expect(firedMs).toBe(-1);
  await time.pass(2);
  expect(firedMs).toBeGreaterThanOrEqual(999);
});

test("a jump moves the wall clock only", () => {
  const { clock } = machine();
  const wallMs = clock.wallMs();
  clock.jump(-3_600_000);
  expect(clock.wallMs() - wallMs).toBe(-3_600_000);
  expect(clock.monotonicMs()).toBe(0);
});
