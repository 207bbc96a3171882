/**
 * A backup made while requests go on is one moment of the database: whole, sound, and with all that was answered before
 * it began.
 */
import { readdirSync } from "node:fs";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { network } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { addressesIn, attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/18,fd10::/64" });
const BACKUPS = 5;

test("backups that are made under load hold every answer from before them", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  const answered = new Map<string, string[]>();
  let loading = true;
  let next = 0;
  const load = Array.from({ length: 8 }, async () => {
    while (loading) {
      const id = `c-${next++}`;
      const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
      expect(answer.status, answer.body).toBe(200);
      answered.set(id, addressesIn(answer.body));
    }
  });
  // A database of many pages, so that a copy takes several turns.
  await until(() => answered.size >= 1_500, "1,500 answers");

  for (let index = 0; index < BACKUPS; index++) {
    const before = [...answered.keys()];
    const path = node.path(`backup-${index}`);
    const made = await daemon.post("/v1/backup", { path });
    expect(made.status, made.body).toBe(200);
    expectWhole(path, before);
  }
  for (let index = 0; index < 2; index++) {
    const before = [...answered.keys()];
    const path = node.path(`same-${index}`);
    const made = await Promise.all([1, 2, 3].map(() => daemon.post("/v1/backup", { path })));
    expect(made.map(({ status }) => status).sort(), made.map(({ body }) => body).join()).toEqual([200, 400, 400]);
    expectWhole(path, before);
  }
  expect(readdirSync(node.path("")).filter((name) => name.endsWith(".partial"))).toEqual([]);
  loading = false;
  await Promise.all(load);
  await expectSound(daemon);
  expect(await attachedTo(daemon, "blue")).toEqual([...answered.keys()].sort());
  const again = await daemon.post("/v1/backup", { path: node.path("backup-0") });
  expect({ status: again.status, ...again.json() }).toMatchObject({
    status: 400,
    message: expect.stringMatching(/exists/),
  });
});

/**
 * Every attachment in it has both its addresses and its history, and everything answered before the backup is there.
 */
function expectWhole(path: string, before: readonly string[]): void {
  const db = new Database(path, { readonly: true });
  const column = (sql: string) => db.prepare(sql).pluck().all();
  expect(column("PRAGMA integrity_check")).toEqual(["ok"]);
  const attached = new Set(column("SELECT container_id FROM uses WHERE phase = 'held'"));
  expect(before.filter((id) => !attached.has(id))).toEqual([]);
  expect(column("SELECT count(*) FROM allocations GROUP BY owner_uid HAVING count(*) <> 2")).toEqual([]);
  expect(column("SELECT count(*) FROM allocations")).toEqual([attached.size * 2]);
  expect(column("SELECT count(*) FROM history")).toEqual([attached.size * 2]);
  db.close();
}
