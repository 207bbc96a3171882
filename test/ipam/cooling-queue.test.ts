import fc from "fast-check";
import { expect, test } from "vitest";
import { type CoolingAddress, CoolingQueue } from "../../ipam/space/cooling-queue.ts";

test("the queue is ordered by the end of the cooldown, whatever is added, removed and put back", () => {
  const step = fc.record({
    act: fc.constantFrom("add", "add", "add", "delete", "delete", "delete", "restore"),
    value: fc.bigInt(0n, 40n),
    coolingUntilMs: fc.integer({ min: 0, max: 6 }),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 300, maxLength: 600, size: "max" }), (steps) => {
      const queue = new CoolingQueue();
      const model = new Map<bigint, CoolingAddress>();
      const takenOut: CoolingAddress[] = [];
      for (const { act, value, coolingUntilMs } of steps) {
        const known = model.get(value);
        if (act === "add" && known === undefined) model.set(value, queue.add(value, coolingUntilMs));
        if (act === "delete" && known !== undefined) {
          queue.delete(known);
          model.delete(value);
          takenOut.push(known);
        }
        if (act === "restore") {
          const last = takenOut.pop();
          if (last !== undefined && !model.has(last.value)) {
            queue.restore(last);
            model.set(last.value, last);
          }
        }
        const sorted = [...model.values()].sort(
          (a, b) => a.coolingUntilMs - b.coolingUntilMs || a.sequence - b.sequence,
        );
        expect(queue.size).toBe(model.size);
        expect(queue.peek()).toBe(sorted[0] ?? null);
        expect(queue.get(value)).toBe(model.get(value) ?? null);
        expect([...queue]).toEqual(sorted);
      }
    }),
    { numRuns: 30 },
  );
});

test("the queue removes its dead entries, so that a hundred thousand cooldowns leave nothing behind", () => {
  const queue = new CoolingQueue();
  const early: CoolingAddress[] = [];
  for (let i = 0; i < 1_000; i++) early.push(queue.add(BigInt(i), i));
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < 1_000; i++) queue.delete(queue.get(BigInt(i)) as CoolingAddress);
    for (let i = 0; i < 1_000; i++) queue.add(BigInt(i), round + i);
    expect(queue.entryCount).toBeLessThan(2_100);
  }
  expect(queue.size).toBe(1_000);
});

test("an entry that is put back has its former place, and no second one", () => {
  const queue = new CoolingQueue();
  const [first] = [1, 2, 3].map((n) => queue.add(BigInt(n), n)) as [CoolingAddress];
  queue.delete(first);
  queue.restore(first);
  expect(queue.entryCount).toBe(3);
  expect([...queue].map(({ value }) => value)).toEqual([1n, 2n, 3n]);
});

test("an iteration continues while entries are added and removed", () => {
  const queue = new CoolingQueue();
  const entries = [1, 2, 3, 4].map((n) => queue.add(BigInt(n), n));
  const seen: bigint[] = [];
  for (const { value } of queue) {
    seen.push(value);
    if (value === 1n) queue.delete(entries[0] as CoolingAddress);
    if (value === 2n) queue.delete(entries[2] as CoolingAddress);
    if (value === 2n) queue.add(9n, 9);
  }
  expect(seen).toEqual([1n, 2n, 4n, 9n]);
});
