/**
 * SQLite's objects in the daemon (statements, backups) are native ones, and V8's garbage collector ends them whenever
 * it likes. better-sqlite3 12 aborted the process then under Node 24: a load of ADDs, looks and backups that leaves
 * many of them behind must not end the daemon.
 */
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFailed, test } from "vitest";
import { StandaloneNode } from "../faults/standalone-node.ts";
import { attachedTo, expectSound } from "../faults/truth.ts";
import { postCni } from "../faults/wire.ts";
import { network, type TestDaemon } from "../harness/daemon.ts";

const ADDS = 1_500;
const ADDS_AT_ONCE = 32;
const ROUNDS = 8;
const CONFIG = network("blue", { subnets: "10.10.0.0/20" });
/** A small young generation, and a collection at least after so many objects. */
const COLLECT_OFTEN = ["--max-semi-space-size=1", "--gc-interval=50000"];

test("a daemon that collects garbage all the time survives ADDs, checks, backups and lists", async () => {
  const node = new StandaloneNode({ inMemory: true });
  const wrapper = ["sh", "-c", `node=$1; shift; exec "$node" ${COLLECT_OFTEN.join(" ")} "$@"`, "sh"];
  const daemon = await node.daemon({ wrapper });
  onTestFailed(() => console.log(daemon.log));
  const ids = Array.from({ length: ADDS }, (_, index) => `c-${index}`);
  await addAll(daemon, ids);
  for (let round = 0; round < ROUNDS; round += 1) {
    const backup = join(daemon.directory, `backup-${round}`);
    await Promise.all([
      expectSound(daemon),
      daemon.post("/v1/backup", { path: backup }).then(({ status, body }) => expect(status, body).toBe(200)),
      attachedTo(daemon, "blue").then((attached) => expect(attached).toEqual([...ids].sort())),
    ]);
    expect(attachedIn(backup)).toBe(ADDS);
  }
  expect(daemon.process.exitCode ?? daemon.process.signalCode, daemon.log).toBeNull();
  expect(await daemon.end(), daemon.log).toBe(0);
});

async function addAll(daemon: TestDaemon, ids: readonly string[]): Promise<void> {
  const waiting = ids.values();
  const one = async () => {
    for (const id of waiting) {
      const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
      expect(answer.status, answer.body).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: ADDS_AT_ONCE }, one));
}

function attachedIn(backup: string): unknown {
  const db = new Database(backup, { readonly: true });
  try {
    return db.prepare("SELECT count(DISTINCT container_id) FROM uses WHERE phase = 'held'").pluck().get();
  } finally {
    db.close();
  }
}
