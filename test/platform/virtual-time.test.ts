import fc from "fast-check";
import { expect, test } from "vitest";
import type { Timer } from "../../platform/time.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

test("timers that are set, cancelled and restarted in any order fire as a sorted list says", async () => {
  const step = fc.oneof(
    fc.record({ act: fc.constant("set" as const), ms: fc.nat(20) }),
    fc.record({ act: fc.constantFrom("cancel" as const, "restart" as const), of: fc.nat(50) }),
    fc.record({ act: fc.constant("step" as const) }),
  );
  await fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const time = new VirtualTime();
      const clock = time.clock();
      const timers: Timer[] = [];
      const model: { id: number; ms: number; atMs: number; order: number }[] = [];
      const waits: number[] = [];
      const cancelled = new Set<number>();
      const fired: number[] = [];
      let order = 0;
      const enter = (id: number, ms: number) => model.push({ id, ms, atMs: time.nowMs + ms, order: order++ });
      const leave = (id: number) => {
        const place = model.findIndex((one) => one.id === id);
        if (place >= 0) model.splice(place, 1);
      };
      for (const one of steps) {
        if (one.act === "set") {
          const id = timers.length;
          waits.push(one.ms);
          timers.push(clock.timer(one.ms, () => fired.push(id)));
          enter(id, one.ms);
        } else if (one.act === "step") {
          model.sort((a, b) => a.atMs - b.atMs || a.order - b.order);
          const expected = model.shift();
          fired.length = 0;
          expect(time.step()).toBe(expected !== undefined);
          expect(fired).toEqual(expected ? [expected.id] : []);
        } else {
          const id = one.of;
          const timer = timers[id];
          if (timer === undefined) continue;
          if (one.act === "cancel") {
            timer.cancel();
            cancelled.add(id);
            leave(id);
          } else {
            timer.restart();
            if (cancelled.has(id)) continue;
            leave(id);
            enter(id, waits[id] as number);
          }
        }
      }
    }),
  );
});

test("while a process is stopped its monotonic clock goes on, and what became due fires when it continues", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  const seen: string[] = [];
  clock.timer(10, () => seen.push(`short at ${time.nowMs}`));
  clock.timer(100, () => seen.push(`long at ${time.nowMs}`));
  await time.pass(5);
  clock.suspend({ monotonicPasses: true, bootPasses: true });
  await time.pass(50);
  expect([seen, clock.monotonicMs(), clock.bootMs()]).toEqual([[], 55, 55]);
  clock.resume();
  await time.pass(100);
  expect(seen).toEqual(["short at 55", "long at 100"]);
});

test("while a machine sleeps its monotonic clock stands, its boot clock goes on, and timers wait for their rest", async () => {
  const time = new VirtualTime();
  const clock = time.clock({ originMs: 1_000, wallMs: 0, rate: 2 });
  const seen: number[] = [];
  clock.timer(20, () => seen.push(time.nowMs));
  await time.pass(4);
  clock.suspend({ monotonicPasses: false, bootPasses: true });
  clock.timer(2, () => seen.push(-time.nowMs));
  await time.pass(50);
  expect([clock.monotonicMs(), clock.bootMs(), clock.wallMs()]).toEqual([1_008, 1_108, 108]);
  clock.resume();
  await time.pass(100);
  expect(seen).toEqual([-55, 60]);
});

test("no timer of a killed process fires, and those of the others do", async () => {
  const time = new VirtualTime();
  const [dead, living] = [time.clock(), time.clock()];
  const seen: string[] = [];
  const timer = dead.timer(10, () => seen.push("dead"));
  living.timer(10, () => seen.push("living"));
  dead.kill();
  timer.restart();
  dead.immediate(() => seen.push("dead at once"));
  await time.pass(20);
  expect(seen).toEqual(["living"]);
});

test("a clock whose pace changes keeps what has passed, and its timers follow", async () => {
  const time = new VirtualTime();
  const clock = time.clock({ wallMs: 0 });
  const seen: number[] = [];
  clock.timer(100, () => seen.push(time.nowMs));
  await time.pass(50);
  clock.setRate(10);
  clock.jumpWall(-1_000);
  await time.pass(50);
  expect([seen, clock.monotonicMs(), clock.wallMs()]).toEqual([[55], 550, -450]);
});

test("the chance of a clock with a seed of its own does not depend on what others draw", () => {
  const drawn = (disturbed: boolean) => {
    const time = new VirtualTime();
    const clock = time.clock({ seed: 5 });
    if (disturbed) time.clock().random();
    return clock.random();
  };
  expect(drawn(true)).toBe(drawn(false));
});
