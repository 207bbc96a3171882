/** SIGKILL before each write and each sync of a start, after a clean end and after a kill: the next start has everything. */
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { FaultyDisk } from "./faulty-disk.ts";
import { readyOrEnded, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/24" });
/** A start has some fifty; one that has more of them than this hangs. */
const CALLS_MAX = 200;
const LIMIT_MS = 240_000;

async function add(daemon: TestDaemon, id: string): Promise<string> {
  const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
  expect(answer.status, answer.body).toBe(200);
  return answer.body;
}

test.each(["SIGTERM", "SIGKILL"] as const)(
  "after %s a start that is killed before any of its writes leaves all to the next one",
  async (signal) => {
    const node = new StandaloneNode({ inMemory: true });
    const disk = new FaultyDisk(node, { below: node.directory });
    const bodies = new Map<string, string>();
    let calls = 0;
    let hasSurvived = false;
    while (!hasSurvived) {
      const daemon = await node.daemon({ env: disk.env });
      for (const [id, body] of bodies) expect(await add(daemon, id), `killed at ${calls}`).toBe(body);
      // More commits than a start makes by itself.
      for (const id of [`${calls}-a`, `${calls}-b`, `${calls}-c`]) bodies.set(id, await add(daemon, id));
      await expectSound(daemon);
      expect(await attachedTo(daemon, "blue")).toEqual([...bodies.keys()].sort());
      await daemon.end(signal);

      calls += 1;
      expect(calls, "writes and syncs of a start").toBeLessThan(CALLS_MAX);
      disk.fail({ call: "kill", every: calls });
      const killed = await node.daemon({ env: disk.env, wait: false });
      hasSurvived = (await readyOrEnded(killed)) === "ready";
      disk.mend();
      await killed.end("SIGKILL");
    }
    console.log(`a start after ${signal} has ${calls - 1} writes and syncs`);
  },
  LIMIT_MS,
);
