/** Whatever ends or makes an attachment, metadata servers can see it before whoever asked for it is answered. */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { generationPathOf, IdentityGeneration } from "../../identity/generation.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { systemClock } from "../../platform/time.ts";
import type { AttachmentRow } from "../../store/journal/rows.ts";
import type { StateFolder } from "../../store/journal/state-folder.ts";
import type { Attachment } from "../../store/records.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { network, newFolder, until } from "../harness/daemon.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/24" });

let folder: string;
let store: SqliteStore;
let inside: StateFolder;
let generation: IdentityGeneration;
let stamp = 0;
beforeEach(async () => {
  folder = newFolder();
  const context = { clock: systemClock, node: "node-a", bootId: "boot", namespaceGone: () => false };
  store = new SqliteStore(folder, context, { info: () => {}, error: () => {} });
  inside = (store as unknown as { folder: StateFolder }).folder;
  generation = new IdentityGeneration(join(folder, "identity.sock"), null, systemClock);
  store.watchAttachments(() => generation.next());
  await store.open();
});
afterEach(async () => {
  await store.close();
  generation.end();
  rmSync(folder, { recursive: true, force: true });
});

const seen = () => readFileSync(generationPathOf(join(folder, "identity.sock")), "hex");
const now = () => {
  stamp += 1;
  return { bootId: "boot", us: stamp };
};
const add = (containerId: string) =>
  store.attach({
    network: "blue",
    definition: parsePluginConfig(CONFIG as Record<string, unknown>),
    definitionSource: JSON.stringify(CONFIG),
    containerId,
    interface: "eth0",
    stamp: now(),
    netns: { path: `/run/netns/${containerId}`, id: "", witnessed: false },
    pod: { namespace: "shop", name: `launcher-${containerId}`, uid: `uid-${containerId}` },
    claim: null,
    requested: [],
    onePerFamily: false,
  });
const del = (containerId: string) =>
  store.detach({ containerId, interface: "eth0", network: "blue", stamp: now(), reason: "DEL" });
const attachment = () => store.attachment("blue", "c1", "eth0") as Attachment;

/** Whether the answer came together with another generation than there was before the question. */
async function changes(ask: () => Promise<unknown>): Promise<boolean> {
  const before = seen();
  return ask().then(() => seen() !== before);
}

test.each<[string, () => Promise<unknown>]>([
  ["DEL", () => del("c1")],
  ["the witness", () => store.endAttachment(attachment(), "namespace gone")],
  [
    "a forced release",
    () => store.release({ network: "blue", address: parseAddress("10.10.0.1"), force: true }),
  ],
  [
    "an address in somebody else's hands",
    () => {
      const [row] = inside.ledger.sql.attachmentsAfter.all(0, 1);
      return inside.write(({ attachments }) => attachments.markLost(row as AttachmentRow));
    },
  ],
])("%s", async (_, end) => {
  expect(await changes(() => add("c1"))).toBe(true);
  expect(store.usersOf(parseAddress("10.10.0.1"))).toHaveLength(1);
  expect(await changes(end)).toBe(true);
  expect(store.usersOf(parseAddress("10.10.0.1"))).toEqual([]);
  expect(await changes(() => store.check())).toBe(false);
});

test("a state that is opened anew after a fault: nobody reads it before", async () => {
  await add("c1");
  const before = seen();
  const fault = Object.assign(new Error("as the test says"), { code: "SQLITE_IOERR" });
  const failed = inside.write(() => {
    throw fault;
  });
  await expect(failed).rejects.toThrow("as the test says");
  await until(() => store.status.kind === "ready", "the state");
  expect(store.usersOf(parseAddress("10.10.0.1"))).toHaveLength(1);
  expect(seen()).not.toBe(before);
});

test("of many requests in one transaction each", async () => {
  const before = seen();
  const after = await Promise.all(Array.from({ length: 50 }, (_, n) => add(`c${n}`).then(seen)));
  expect(after).not.toContain(before);
});
