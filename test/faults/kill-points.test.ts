/**
 * SIGKILL at every step between reserving an address and answering with it, under load, again and again on one state
 * directory.
 */
import { expect, test } from "vitest";
import type { KillPoint } from "../../platform/kill-point.ts";
import { roundsOr, seededRandom } from "./random.ts";
import { readyOrEnded, StandaloneNode } from "./standalone-node.ts";
import { allAllocations, expectSound } from "./truth.ts";
import { Workload } from "./workload.ts";

const POINTS: readonly KillPoint[] = ["in-transaction", "before-commit", "after-commit", "before-answer"];
const ROUNDS_PER_POINT = roundsOr(10);
/** Passings of a point before the kill, at most: half of what one round's calls cause. */
const PASSINGS_MAX = 40;
const CALLS_PER_ROUND = 200;

test.each(POINTS)("after kills %s every answer holds, and every unanswered request can be repeated", async (point) => {
  const random = seededRandom(`killed ${point}`);
  const node = new StandaloneNode({ inMemory: true });
  const workload = new Workload(random);
  const first = await node.daemon();
  await workload.prepare(first);
  await first.end("SIGKILL");
  let killedByPoint = 0;
  for (let round = 0; round < ROUNDS_PER_POINT; round++) {
    const passings = 1 + random.below(PASSINGS_MAX);
    const daemon = await node.daemon({ wait: false, env: { HOLDFAST_KILL_POINT: `${point}:${passings}` } });
    let isKilled = (await readyOrEnded(daemon)) === "ended";
    if (!isKilled) {
      await expectSound(daemon);
      await workload.verify(daemon);
      isKilled = await workload.run(daemon, CALLS_PER_ROUND);
    }
    if (isKilled) killedByPoint += 1;
    await daemon.end("SIGKILL");
  }
  console.log(`${point}: ${killedByPoint} kills, ${workload.answered} calls answered, ${workload.unanswered} not`);
  expect(killedByPoint).toBeGreaterThan(ROUNDS_PER_POINT / 2);
  const last = await node.daemon();
  await expectSound(last);
  await workload.verify(last);
  await workload.repeatAll(last);
  await expectSound(last);
  await workload.deleteAll(last);
  await expectSound(last);
  const claimed = (await allAllocations(last)).filter((one) => one.state === "Bound");
  expect(claimed.every((one) => one.owner.kind === "claim" && one.attachments.length === 0)).toBe(true);
});
