/** SIGKILL at random instants, those of starting included, under load, again and again on one state folder. */
import { test } from "vitest";
import { pause } from "../harness/wait.ts";
import { seededRandom } from "./random.ts";
import { readyOrEnded, StandaloneNode } from "./standalone-node.ts";
import { expectSound } from "./truth.ts";
import { Workload } from "./workload.ts";

const ROUNDS = 100;
/** About what a start takes, so that some kills come before it is done and some after. */
const START_MS = { from: 150, to: 450 };
const LOAD_MS_MAX = 120;
/** A hundred starts take half a minute on a quiet machine; only a hung test needs this long. */
const TEST_MS_MAX = 600_000;

test(
  "after kills at random instants every answer holds, and every unanswered request can be repeated",
  async () => {
    const random = seededRandom("killed at random instants");
    const node = new StandaloneNode();
    const workload = new Workload(random);
    const first = await node.daemon();
    await workload.prepare(first);
    await first.end("SIGKILL");
    for (let round = 0; round < ROUNDS; round++) {
      const daemon = await node.daemon({ wait: false });
      const killsAtStart = random.chance(0.3);
      if (killsAtStart) {
        await pause(START_MS.from + random.below(START_MS.to - START_MS.from));
      } else {
        await readyOrEnded(daemon);
        await expectSound(daemon);
        await workload.verify(daemon);
        const load = workload.run(daemon, 10_000);
        await pause(random.below(LOAD_MS_MAX));
        daemon.process.kill("SIGKILL");
        await load;
      }
      await daemon.end("SIGKILL");
    }
    console.log(`random instants: ${workload.answered} calls answered, ${workload.unanswered} not`);
    const last = await node.daemon();
    await expectSound(last);
    await workload.verify(last);
    await workload.repeatAll(last);
    await expectSound(last);
  },
  TEST_MS_MAX,
);
