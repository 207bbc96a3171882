import { expect, test } from "vitest";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import { nextTurn, systemClock } from "../../platform/time.ts";

const turn = () => nextTurn(systemClock);

test("every item is done once, they begin in order, and never more than the limit at once", async () => {
  const begun: number[] = [];
  let running = 0;
  let most = 0;
  await severalAtOnce([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    begun.push(item);
    running += 1;
    most = Math.max(most, running);
    // Some take longer than others.
    for (let turns = item % 3; turns >= 0; turns -= 1) await turn();
    running -= 1;
  });
  expect({ begun, most }).toEqual({ begun: [1, 2, 3, 4, 5, 6, 7], most: 3 });
});

test("after a failure nothing new begins, and what has begun ends before the failure is thrown", async () => {
  const log: string[] = [];
  const work = async (item: number) => {
    log.push(`begin ${item}`);
    if (item === 1) throw new Error("first");
    await turn();
    log.push(`end ${item}`);
    throw new Error("second");
  };
  await expect(severalAtOnce([1, 2, 3, 4], 2, work)).rejects.toThrow("first");
  expect(log).toEqual(["begin 1", "begin 2", "end 2"]);
});

test("an empty list is no work, and an iterator that throws fails the whole", async () => {
  await severalAtOnce([], 4, () => Promise.reject(new Error("never")));
  const broken = function* () {
    yield 1;
    throw new Error("no more of these");
  };
  await expect(severalAtOnce(broken(), 2, turn)).rejects.toThrow("no more of these");
});
