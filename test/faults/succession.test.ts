/** A daemon that starts while its predecessor ends: it waits outside, and whoever comes next has everything. */
import { existsSync, utimesSync } from "node:fs";
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { FaultyDisk } from "./faulty-disk.ts";
import { roundsOr, seededRandom } from "./random.ts";
import { ended, hasEnded, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const BLUE = network("blue", { subnets: "10.10.0.0/16" });
const IN_USE = /is in use by another holdfast daemon/;
/** An end has some twenty; one that has more of them than this hangs. */
const CALLS_MAX = 100;
const ROUNDS = roundsOr(25);
const LIMIT_MS = 300_000;

async function add(daemon: TestDaemon, ids: readonly string[]): Promise<void> {
  const answers = await Promise.all(ids.map((id) => postCni(daemon, "ADD", id, { config: BLUE })));
  for (const { status, body } of answers) expect(status, body).toBe(200);
}

function some(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}

test(
  "while a predecessor stands still before any write of its end, a successor is refused, and the next one has everything",
  async () => {
    const node = new StandaloneNode({ inMemory: true });
    const disk = new FaultyDisk(node, { below: node.directory });
    const held: string[] = [];
    let calls = 0;
    for (let hasEnd = false; !hasEnd; ) {
      const daemon = await node.daemon({ env: disk.env });
      const more = some(`${calls}`, 5);
      await add(daemon, more);
      held.push(...more);
      calls += 1;
      expect(calls, "writes, syncs and removals of an end").toBeLessThan(CALLS_MAX);
      disk.fail({ call: "stop", every: calls });
      daemon.process.kill("SIGTERM");
      const isStopped = () => disk.hasStopped(daemon.process.pid as number);
      await until(() => hasEnded(daemon) || isStopped(), "its end, or that it stands still");
      hasEnd = hasEnded(daemon);
      if (!hasEnd) {
        const refused = await ended(await node.daemon({ wait: false }));
        expect(refused).toMatchObject({ code: 1, log: expect.stringMatching(IN_USE) });
      }
      disk.mend();
      daemon.process.kill("SIGCONT");
      await ended(daemon);
      const next = await node.daemon();
      expect(await attachedTo(next, "blue"), `stood still before ${calls}`).toEqual([...held].sort());
      await expectSound(next);
      await next.end("SIGKILL");
    }
    console.log(`an end has ${calls - 1} writes, syncs and removals`);
  },
  LIMIT_MS,
);

test("a lock that cannot be removed is in nobody's way: the database is opened again, and by the next daemon", async () => {
  const node = new StandaloneNode({ inMemory: true });
  const disk = new FaultyDisk(node);
  const daemon = await node.daemon({ env: disk.env });
  await add(daemon, ["a"]);
  disk.fail({ call: "unlink", errno: "EROFS", ending: "holdfast.lock" });
  const now = new Date();
  utimesSync(node.path("state", "holdfast.db"), now, now);
  await untilSaid(() => daemon.log, "the state database was reopened and checked");
  await add(daemon, ["b"]);
  expect(await daemon.end()).toBe(0);
  expect(existsSync(node.path("state", "holdfast.lock"))).toBe(true);
  disk.mend();
  const next = await node.daemon();
  expect(await attachedTo(next, "blue")).toEqual(["a", "b"]);
  await next.end();
  expect(existsSync(node.path("state", "holdfast.lock"))).toBe(false);
});

test(
  "whenever a successor starts while its predecessor ends, nothing is taken for damage",
  async () => {
    const random = seededRandom("succession");
    const node = new StandaloneNode({ inMemory: true });
    const held: string[] = [];
    let daemon = await node.daemon();
    // About what a start takes to come to the files: sooner after a start that came too late, and the reverse.
    let aroundMs = 120;
    for (let round = 0; round < ROUNDS; round++) {
      const more = some(`${round}`, 40);
      await add(daemon, more);
      held.push(...more);
      const successor = await node.daemon({ wait: false });
      await pause(Math.max(0, aroundMs - 40) + random.below(80));
      const end = daemon.end("SIGTERM");
      // Not by the socket, which is the predecessor's until then.
      const isReady = () => /"msg":"ready"|damaged/.test(successor.log);
      await until(
        () => hasEnded(successor) || isReady(),
        () => `what becomes of it; log: ${successor.log}`,
      );
      await end;
      const isFirst = !hasEnded(successor);
      if (!isFirst) expect(successor.log).toMatch(IN_USE);
      aroundMs += isFirst ? 5 : -5;
      daemon = isFirst ? successor : await node.daemon();
      expect(daemon.log).not.toContain("damaged");
      expect(await attachedTo(daemon, "blue")).toEqual([...held].sort());
    }
    await expectSound(daemon);
  },
  LIMIT_MS,
);
