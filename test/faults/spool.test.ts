/**
 * DELs while the daemon is away: the plugin binary keeps them, and the daemon makes up for them before it gives an
 * address.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type ApiAnswer, network, runShim, type TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { hasEnded, StandaloneNode } from "./standalone-node.ts";
import { addressesIn, attachedTo, expectSound } from "./truth.ts";
import { postCni, wireRequest } from "./wire.ts";

/** One address: who comes before the DEL is made up for is told that there is none. */
const SINGLE = network("single", { subnets: "10.10.0.7/32", cooldownSeconds: 0 });
const MANY = network("many", { subnets: "10.20.0.0/16", cooldownSeconds: 0 });

async function add(daemon: TestDaemon, id: string, config: object): Promise<string> {
  const answer = await postCni(daemon, "ADD", id, { config });
  expect(answer.status, answer.body).toBe(200);
  return answer.body;
}

async function spooledFiles(daemon: TestDaemon): Promise<Record<string, number>> {
  const { body } = await daemon.get("/metrics");
  const lines = [...body.matchAll(/holdfast_spool_files\{state="(\w+)"\} (\d+)/g)];
  return Object.fromEntries(lines.map(([, state, count]) => [state, Number(count)]));
}

/** Many files at once, as the plugin binary writes them. */
function writeSpool(spool: string, ids: readonly string[]): void {
  for (const id of ids) {
    const wire = wireRequest("DEL", id, { config: MANY });
    writeFileSync(join(spool, `${String(wire.bootUs).padStart(20, "0")}-1-${id}.json`), JSON.stringify(wire));
  }
}

test("a DEL while the daemon is away succeeds, and counts before the first ADD is served", async () => {
  const node = new StandaloneNode({ inMemory: true });
  const first = await node.daemon();
  const ids = Array.from({ length: 3_000 }, (_, index) => `c-${index}`);
  for (let from = 0; from < ids.length; from += 100) {
    await Promise.all(ids.slice(from, from + 100).map((id) => add(first, id, MANY)));
  }
  await add(first, "old", SINGLE);
  await first.end("SIGKILL");
  writeSpool(first.spool, ids);
  const del = await runShim("DEL", "old", { socket: first.socket, spool: first.spool, config: SINGLE });
  expect(del).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("goes to the spool") });
  expect(readdirSync(first.spool)).toHaveLength(3_001);

  const daemon = await node.daemon({ wait: false });
  let early: ApiAnswer | null = null;
  let ready: ApiAnswer | null = null;
  while (early === null && !hasEnded(daemon)) {
    const asked = postCni(daemon, "ADD", "new", { config: SINGLE }).catch(() => null);
    ready = await daemon.get("/readyz").catch(() => null);
    early = await asked;
  }
  expect(ready?.json().message, "the ADD came too early").toMatch(/spool is not drained/);
  expect(early?.status, early?.body).toBe(200);
  expect(addressesIn(early?.body ?? "")).toEqual(["10.10.0.7"]);
  expect(readdirSync(daemon.spool)).toEqual([]);
  expect(await attachedTo(daemon, "many")).toEqual([]);
  await expectSound(daemon);
});

test("a spooled file that is no DEL is put aside and reported, and delays nothing", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon();
  await add(first, "old", SINGLE);
  await first.end();
  const bad: Record<string, string> = {
    "00-empty.json": "",
    "01-garbage.json": "\u0000\u0001{[",
    "02-cut.json": JSON.stringify(wireRequest("DEL", "old")).slice(0, 90),
    "03-number.json": "7",
    "04-null.json": "null",
    "05-add.json": JSON.stringify(wireRequest("ADD", "new", { config: SINGLE })),
    "06-no-id.json": JSON.stringify({ ...wireRequest("DEL", "old"), containerId: "" }),
    "07-strange-id.json": JSON.stringify({ ...wireRequest("DEL", "old"), containerId: "../old" }),
    "08-no-stamp.json": JSON.stringify({ ...wireRequest("DEL", "old"), bootUs: -1 }),
  };
  for (const [name, text] of Object.entries(bad)) writeFileSync(join(first.spool, name), text);
  mkdirSync(join(first.spool, "09-directory.json"));
  writeFileSync(join(first.spool, "notes.txt"), "not ours");
  await runShim("DEL", "old", { socket: first.socket, spool: first.spool, config: SINGLE });

  const daemon = await node.daemon();
  const aside = [...Object.keys(bad), "09-directory.json"].map((name) => `${name}.bad`);
  expect(readdirSync(daemon.spool).sort()).toEqual([...aside, "notes.txt"].sort());
  await add(daemon, "new", SINGLE);
  const { findings } = (await daemon.get("/v1/check")).json();
  expect(findings).toEqual([expect.objectContaining({ invariant: "spool", message: expect.stringContaining("10 ") })]);
  expect(await spooledFiles(daemon)).toEqual({ waiting: 0, bad: 10 });

  writeFileSync(join(daemon.spool, "10-late.json"), "{}");
  await until(async () => (await spooledFiles(daemon)).bad === 11, "the late one to be put aside");
  for (const name of [...aside, "10-late.json.bad"]) rmSync(join(daemon.spool, name), { recursive: true });
  await expectSound(daemon);
});

test("a spool directory that is removed while the daemon runs is made again by the next DELs that need it", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  for (const id of ["a", "b"]) await add(daemon, id, MANY);
  rmSync(daemon.spool, { recursive: true });
  expect(await daemon.cni("DEL", "a", { config: MANY })).toMatchObject({ code: 0, stderr: "" });
  const del = await runShim("DEL", "b", { socket: node.path("nobody"), spool: daemon.spool, config: MANY });
  expect(del).toMatchObject({ code: 0, stderr: expect.stringContaining("goes to the spool") });
  await until(async () => (await attachedTo(daemon, "many")).length === 0, "the spool to be drained");
  rmSync(daemon.spool, { recursive: true });
  expect(await spooledFiles(daemon)).toEqual({ waiting: 0, bad: 0 });
  await add(daemon, "c", MANY);
  await expectSound(daemon);
  expect(await daemon.end()).toBe(0);
});
