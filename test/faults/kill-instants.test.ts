/** SIGKILL at random instants, those of starting included, under load, again and again on one state directory. */
import { test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { roundsOr, seededRandom } from "./random.ts";
import { readyOrEnded, StandaloneNode } from "./standalone-node.ts";
import { expectSound } from "./truth.ts";
import { Workload } from "./workload.ts";

const ROUNDS = roundsOr(30);
/** About what a start takes, so that some kills come before it is done and some after. */
const START_MS = { from: 100, to: 400 };
/** On a busy machine few are answered in any time that is enough on a quiet one. */
const ANSWERS_MAX = 60;
const LOAD_MS_MAX = 20;
/** A round takes half a second on a quiet machine; only a hung test needs this long. */
const TEST_MS_MAX = 120_000 + 6_000 * ROUNDS;

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
        const answers = workload.answered + random.below(ANSWERS_MAX);
        await until(() => workload.answered >= answers, "calls to be answered");
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
