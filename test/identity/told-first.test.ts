/** Whatever ends or makes an attachment, metadata servers can see it before whoever asked for it is answered. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Attachment } from "../../allocations/records.ts";
import { generationPathOf, IdentityGeneration } from "../../identity/generation.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { systemClock } from "../../platform/time.ts";
import type { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { until } from "../harness/wait.ts";
import { PodStore } from "./pod-store.ts";

let pods: PodStore;
let store: SqliteStore;
let socketPath: string;
let generation: IdentityGeneration;
beforeEach(async () => {
  pods = new PodStore({ subnets: "10.10.0.0/24" });
  store = pods.store;
  socketPath = join(pods.directory, "identity.sock");
  generation = new IdentityGeneration(socketPath, null, systemClock);
  store.watchAttachments(() => generation.next());
  await store.open();
});
afterEach(() => {
  pods.close();
  generation.end();
});

const seen = () => readFileSync(generationPathOf(socketPath), "hex");
const add = (containerId: string) => pods.add(containerId);
const attachment = () => store.attachment("blue", "c1", "eth0") as Attachment;

/** Whether the answer came together with another generation than there was before the question. */
async function changes(ask: () => Promise<unknown>): Promise<boolean> {
  const before = seen();
  return ask().then(() => seen() !== before);
}

test.each<[string, () => Promise<unknown>]>([
  ["DEL", () => pods.del("c1")],
  ["the witness", () => store.endAttachment(attachment(), "namespace gone")],
  ["a forced release", () => store.release({ network: "blue", address: parseAddress("10.10.0.1"), force: true })],
  ["an address in somebody else's hands", () => pods.loseFirst()],
])("a new generation is there before the answer to %s", async (_, end) => {
  expect(await changes(() => add("c1"))).toBe(true);
  expect(store.usersOf(parseAddress("10.10.0.1"))).toHaveLength(1);
  expect(await changes(end)).toBe(true);
  expect(store.usersOf(parseAddress("10.10.0.1"))).toEqual([]);
  expect(await changes(() => store.check())).toBe(false);
});

test("a state that is opened again after a fault has another generation", async () => {
  await add("c1");
  const before = seen();
  const fault = Object.assign(new Error("as the test says"), { code: "SQLITE_IOERR" });
  const failed = pods.journal.write(() => {
    throw fault;
  });
  await expect(failed).rejects.toThrow("as the test says");
  await until(() => store.status.kind === "ready", "the state");
  expect(store.usersOf(parseAddress("10.10.0.1"))).toHaveLength(1);
  expect(seen()).not.toBe(before);
});

test("each of many requests in one transaction changes the generation before its answer", async () => {
  const before = seen();
  const after = await Promise.all(Array.from({ length: 50 }, (_, n) => add(`c${n}`).then(seen)));
  expect(after).not.toContain(before);
});
