import { expect, test } from "vitest";
import { VirtualTime } from "../../harness/virtual-time.ts";
import { MachineClock, ProcessClock } from "./clocks.ts";

function machine(rate = 1) {
  const time = new VirtualTime(1);
  const clock = new MachineClock(time.clock({ rate }));
  return { time, clock, process: new ProcessClock(clock) };
}

test("a killed process gets neither its pending timers nor new ones", async () => {
  const { time, process } = machine();
  const fired: string[] = [];
  process.timer(10, () => fired.push("before"));
  process.kill();
  process.timer(10, () => fired.push("after"));
  await time.pass(100);
  expect(fired).toEqual([]);
});

test("timers that became due while a process was stopped fire in order when it continues", async () => {
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
  await time.pass(10_000);
  clock.resume();
  expect(clock.monotonicMs()).toBe(0);
  expect(clock.bootUs()).toBe(20_000_000);
  await time.pass(499);
  expect(firedMs).toBe(-1);
  await time.pass(2);
  expect(firedMs).toBeGreaterThanOrEqual(999);
});

test("a process that is started on a suspended machine waits for its end, and takes no step meanwhile", async () => {
  const { time, clock } = machine();
  clock.suspend();
  const process = new ProcessClock(clock);
  let isFired = false;
  process.timer(0.5, () => {
    isFired = true;
  });
  let steps = 0;
  const end = time.clock().timer(1_000, () => clock.resume());
  while (!isFired && steps < 100 && time.step()) steps += 1;
  expect(isFired).toBe(true);
  expect(steps).toBeLessThan(5);
  expect(time.nowMs).toBeGreaterThanOrEqual(1_000);
  end.cancel();
});

test("a process that is continued while its machine is suspended goes on when the machine does", async () => {
  const { time, clock, process } = machine();
  let isFired = false;
  process.timer(10, () => {
    isFired = true;
  });
  process.stop();
  clock.suspend();
  await time.pass(100);
  process.continue();
  await time.pass(100);
  expect(isFired).toBe(false);
  clock.resume();
  await time.pass(11);
  expect(isFired).toBe(true);
});

test("a jump moves the wall clock only", () => {
  const { clock } = machine();
  const wallMs = clock.wallMs();
  clock.jump(-3_600_000);
  expect(clock.wallMs() - wallMs).toBe(-3_600_000);
  expect(clock.monotonicMs()).toBe(0);
});
