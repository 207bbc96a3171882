import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { newDirectory, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

let daemon: TestDaemon | null = null;
afterEach(() => daemon?.stop());

test("an empty file of a first start that was cut short is started again", async () => {
  const directory = newDirectory();
  mkdirSync(join(directory, "state"));
  writeFileSync(join(directory, "state/holdfast.db"), "");
  writeFileSync(join(directory, "state/holdfast.db-journal"), "");
  daemon = await TestDaemon.start({ directory });
  expect((await daemon.cni("ADD", "c1")).code).toBe(0);
});

test("a database that is missing after a clean stop refuses ADDs until the operator decides", async () => {
  const first = await TestDaemon.start();
  expect((await first.cni("ADD", "c1")).code).toBe(0);
  await first.end();
  rmSync(join(first.state, "holdfast.db"));
  daemon = await TestDaemon.start({ directory: first.directory, wait: false });
  const { log, get } = { log: () => daemon?.log ?? "", get: () => daemon?.get("/readyz") };
  await until(() => log().includes("holdfast.db is gone or empty"), "the loss to be found");
  // It listens a moment after it has looked.
  await until(async () => (await get()?.catch(() => null))?.status === 503, "the socket");
  const refused = await daemon.cni("ADD", "c2");
  expect(refused.json()).toMatchObject({ code: 11 });
  expect((await daemon.post("/v1/rebuild", { empty: true })).status).toBe(200);
  expect((await daemon.cni("ADD", "c2")).code).toBe(0);
});
