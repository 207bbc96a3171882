/** What the service does while something changes under it, or is wrong: its parts are real but for who knows the VMs. */
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { LocalVms } from "../../identity/allocation-source.ts";
import type { IdentityQuery } from "../../identity/query.ts";
import { type IdentityParts, IdentityService } from "../../identity/service.ts";
import { StandaloneIdentities } from "../../identity/sources/standalone.ts";
import type { IdentityVm } from "../../identity/wire.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { RefusalError } from "../../ipam/refusals.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { systemClock } from "../../platform/time.ts";
import type { AttachmentRow } from "../../store/journal/rows.ts";
import type { StateFolder } from "../../store/journal/state-folder.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { network, newFolder } from "../harness/daemon.ts";

// One address, which never rests.
const CONFIG = network("blue", {
  subnets: "10.10.0.0/30",
  excludeSubnets: "10.10.0.2/32",
  cooldownSeconds: 0,
});
const QUESTION: IdentityQuery["question"] = {
  kind: "address",
  address: parseAddress("10.10.0.1"),
  network: undefined,
};
const VM: IdentityVm = { namespace: "shop", name: "vm1", uid: "", vmiUid: "vmi", firmwareUuid: null };

let folder: string;
let store: SqliteStore;
let stamp = 0;

beforeEach(async () => {
  folder = newFolder();
  const context = { clock: systemClock, node: "node-a", bootId: "boot", namespaceGone: () => false };
  store = new SqliteStore(folder, context, { info: () => {}, error: () => {} });
  await store.open();
});
afterEach(() => {
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

const now = () => {
  stamp += 1;
  return { bootId: "boot", us: stamp };
};

async function add(containerId: string): Promise<void> {
  const outcome = await store.attach({
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
  expect(outcome.kind).toBe("attached");
}

const del = (containerId: string) =>
  store.detach({ containerId, interface: "eth0", network: "blue", stamp: now(), reason: "DEL" });

function serviceWith(vms: Partial<LocalVms>, more: Partial<IdentityParts> = {}): IdentityService {
  const facts = {
    definition: () => undefined,
    dns: () => ({}),
    mtu: () => null,
    mac: () => null,
    routes: () => [],
  };
  const source = new StandaloneIdentities(store, facts);
  const all: LocalVms = { known: () => null, learn: async () => {}, nameOf: () => null, ...vms };
  return new IdentityService({ store, source, vms: all, facts, notReady: () => null, ...more });
}

const refusalOf = (service: IdentityService, here = true) =>
  service.answer({ question: QUESTION, here }).then(
    () => null,
    (error: RefusalError) => error.refusal ?? error,
  );

test("an address that changes hands while somebody is asked who it was, is told its present holder", async () => {
  await add("old");
  const learnt = new Set<string>();
  const asked: string[] = [];
  const service = serviceWith({
    known: ([one]) => (learnt.has(one?.uses[0]?.containerID ?? "") ? VM : undefined),
    learn: async ([one]) => {
      const id = one?.uses[0]?.containerID ?? "";
      asked.push(id);
      if (id === "old") {
        await del("old");
        await add("new");
      }
      learnt.add(id);
    },
  });
  const { identity } = await service.answer({ question: QUESTION, here: true });
  expect(asked).toEqual(["old", "new"]);
  expect(identity.pods).toMatchObject([{ name: "launcher-new", containerID: "new" }]);
});

test("one that is given back meanwhile has nobody behind it", async () => {
  await add("old");
  const service = serviceWith({ known: () => undefined, learn: async () => void (await del("old")) });
  expect(await refusalOf(service)).toMatchObject({ code: "NOT_FOUND" });
});

test("what cannot be learnt is not left out", async () => {
  await add("c1");
  const learn = () => Promise.reject(new ApiAway("no answer"));
  expect(await refusalOf(serviceWith({ known: () => undefined, learn }))).toBeInstanceOf(ApiAway);
});

test("two owners of one address are a fault, and neither is told", async () => {
  await add("c1");
  const other: Owner = { kind: "pod", uid: "uid-c2", interface: "eth0", namespace: "shop", name: "other" };
  const twice = Object.create(store, {
    usersOf: {
      value: (...which: Parameters<SqliteStore["usersOf"]>) => [
        ...store.usersOf(...which),
        { network: "blue", containerId: "c2", owner: other },
      ],
    },
  }) as SqliteStore;
  for (const here of [true, false]) {
    expect(await refusalOf(serviceWith({}, { store: twice }), here)).toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringMatching(/pod shop\/other \(eth0\).*pod shop\/launcher-c1 \(eth0\)/),
    });
  }
});

test("an attachment that has lost an address to somebody else tells nobody who is behind it", async () => {
  await add("c1");
  expect((await serviceWith({}).answer({ question: QUESTION, here: true })).identity.pods).toHaveLength(1);
  const { folder: inside } = store as unknown as { folder: StateFolder };
  const [row] = inside.ledger.sql.attachmentsAfter.all(0, 1);
  await inside.write(({ attachments }) => attachments.markLost(row as AttachmentRow));
  expect(await refusalOf(serviceWith({}))).toMatchObject({ code: "NOT_FOUND" });
});

test("nothing is told while DELs may be waiting that were answered already", async () => {
  await add("c1");
  const service = serviceWith({}, { notReady: () => "the spool is not drained yet" });
  for (const here of [true, false])
    expect(await refusalOf(service, here)).toMatchObject({ code: "NOT_READY" });
});
