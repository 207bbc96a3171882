/** The ledger as the controller uses it for machines: what it gives, and when it gives nothing. */
import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { cooled } from "../../allocations/allocation-object.ts";
import { UsedSpaces } from "../../allocations/used-spaces.ts";
import { MachineLedger } from "../../controller/capi/machine-ledger.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import type { Owner } from "../../ipam/owner.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { networkObjectName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, NETWORKS_PATH } from "../../kube/objects.ts";
import type { ReserveOutcome, ReserveWant } from "../../store/allocations.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { nameOf } from "../harness/world/network.ts";

const definition = parsePluginConfig({
  cniVersion: "1.0.0",
  name: "blue",
  ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/24" },
});

function machine(name: string, uid = `${name}-uid`): Owner {
  return { kind: "addressClaim", uid, interface: "", namespace: "shop", name };
}

/** Any address of the network. */
function wantOf(owner: Owner): ReserveWant {
  const within = definition.rangeSets[0]?.automatic ?? IntervalSet.EMPTY;
  const request = { kind: "single", family: 4, within, automatic: within, requested: null } as const;
  return { owner, network: "blue", definition, request };
}

/** A ledger that follows nothing by itself: `follow` tells it an object as its watch would. */
function ledgerOf() {
  const clock = new ManualClock();
  const api = new KubeInMemory(clock);
  api.put(NETWORKS_PATH, { metadata: { name: networkObjectName("blue") }, spec: { network: "blue" } });
  let relists = 0;
  const usedSpaces = new UsedSpaces();
  const ledger = new MachineLedger({
    ...{ api, usedSpaces, identity: "one", log: pino({ level: "silent" }) },
    relist: () => {
      relists += 1;
    },
  });
  onTestFinished(() => ledger.stop());
  ledger.noteState("watching");
  const objectOf = (text: string): IPAllocation => api.at(`${ALLOCATIONS_PATH}/${nameOf("blue", text)}`);
  const reserve = async (owner: Owner) => got(await ledger.reserve(wantOf(owner)));
  return { clock, api, ledger, usedSpaces, reserve, objectOf, relists: () => relists };
}

function got(outcome: ReserveOutcome): string {
  return outcome.kind === "refused" ? outcome.refusal.code : outcome.addresses.map(formatInterfaceAddress).join(" ");
}

const bound = (api: KubeInMemory) =>
  [...api.objects.entries()].filter(
    ([path, { status }]) => path.startsWith(ALLOCATIONS_PATH) && status.state === "Bound",
  ).length;

test("a repeat gets what was reserved although the watch has not shown it yet", async () => {
  const { api, reserve } = ledgerOf();
  const first = await reserve(machine("m0"));
  expect(await reserve(machine("m0"))).toBe(first);
  expect(bound(api)).toBe(1);
});

test("a ledger that has seen nothing of another's reservation meets it at the same name", async () => {
  const { api, reserve } = ledgerOf();
  const first = await reserve(machine("m0"));
  const other = new MachineLedger({
    ...{
      api,
      usedSpaces: new UsedSpaces(),
      identity: "two",
      log: pino({ level: "silent" }),
      relist: () => {},
    },
  });
  onTestFinished(() => other.stop());
  expect(got(await other.reserve(wantOf(machine("m0"))))).toBe(first);
  expect(got(await other.reserve(wantOf(machine("m0", "again"))))).toBe(first);
  expect(bound(api)).toBe(1);
});

test("an address that the cache still shows as the owner's is not published if another owner has it by now", async () => {
  const { api, ledger, usedSpaces, reserve, objectOf } = ledgerOf();
  const first = await reserve(machine("m0"));
  const object = objectOf(first);
  // Released and given to another behind the back of the copy.
  const path = `${ALLOCATIONS_PATH}/${object.metadata.name}`;
  api.remove(path);
  const { uid: _, resourceVersion: __, ...metadata } = object.metadata as IPAllocation["metadata"];
  const theirs = { ...object.spec.owner, name: "thief", uid: "thief-uid" };
  api.put(ALLOCATIONS_PATH, { ...object, metadata, spec: { ...object.spec, owner: theirs } });
  usedSpaces.upsert(object, first.split("/")[0] ?? "");
  ledger.upsert(object);
  const second = await reserve(machine("m0"));
  expect(second).toMatch(/^10\.0\.0\.\d+\/24$/);
  expect(second).not.toBe(first);
  expect(objectOf(first).spec.owner.name).toBe("thief");
});

test("after a gap in contact nothing is given until the nodes have had time to report what they miss", async () => {
  const { clock, ledger, reserve } = ledgerOf();
  await reserve(machine("m0"));
  ledger.noteState("away");
  expect(await reserve(machine("m1"))).toBe("NETWORK_RECOVERING");
  ledger.noteState("watching");
  expect(await reserve(machine("m1"))).toBe("NETWORK_RECOVERING");
  const told = await ledger.record(machine("m2"), "blue", parseInterfaceAddress("10.0.0.99/24"), "IPAddress metal/m2");
  expect(told).toMatchObject({ kind: "recorded", was: "none" });
  clock.nowMs += 4_001;
  expect(await reserve(machine("m1"))).toMatch(/^10\.0\.0\.\d+\/24$/);
});

test("a restored API server is noticed at the first write, which is undone", async () => {
  const { api, reserve, relists } = ledgerOf();
  const saved = api.server.etcd.save();
  for (const name of ["a", "b", "c"]) await reserve(machine(name));
  api.server.etcd.restore(saved);
  await expect(reserve(machine("d"))).rejects.toThrow("given back");
  expect(relists()).toBe(1);
  expect(bound(api)).toBe(0);
  expect(await reserve(machine("d"))).toBe("NETWORK_RECOVERING");
});

test("a published address is recorded even if it cools down, and never taken from another owner", async () => {
  const { api, ledger, reserve, objectOf } = ledgerOf();
  const first = parseInterfaceAddress(await reserve(machine("m0")));
  const text = formatInterfaceAddress(first);
  const record = (owner: Owner) => ledger.record(owner, "blue", first);
  expect(await record(machine("m1"))).toMatchObject({ kind: "held" });
  expect(await record(machine("m0"))).toEqual({ kind: "own" });
  expect(await record(machine("m0", "again"))).toMatchObject({ kind: "recorded", was: "bound" });
  await ledger.release(machine("m0", "again"));
  expect(objectOf(text).status?.state).toBe("Cooling");
  expect(await record(machine("m0", "again"))).toMatchObject({ kind: "recorded", was: "cooling" });
  api.put(ALLOCATIONS_PATH, cooled(objectOf(text), "2026-01-01T00:00:00Z"));
  expect(await record(machine("m1"))).toMatchObject({ kind: "recorded", was: "cooling" });
  expect(objectOf(text).spec.owner.name).toBe("m1");
});
