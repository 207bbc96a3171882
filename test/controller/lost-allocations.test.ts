import { afterEach, describe, expect, test } from "vitest";
import { cooled, newAllocation, retained } from "../../allocations/allocation-object.ts";
import { LostAllocations } from "../../controller/protection/lost-allocations.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type AllocationOwner, type IPAllocation } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { Link } from "../harness/kube-fake/client/link.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

// Allocations that somebody deletes although they are in use: the controller puts them back, and nothing else.

const TIME = "2026-01-01T00:00:00Z";
const POD = { namespace: "shop", name: "web-0", uid: "p1" };
const OWNER: AllocationOwner = { kind: "Pod", ...POD, interface: "net1" };

function bound(owner = OWNER, { text = "10.0.0.7/24", network = "blue" } = {}): IPAllocation {
  const attachment = { containerID: "c1", interface: "net1", node: "n1", pod: POD, since: TIME };
  const one = parseInterfaceAddress(text);
  const made = newAllocation(network, one, { owner, mac: "02:00:00:00:00:07", attachment }, TIME);
  const metadata = { ...made.metadata, uid: "u1", resourceVersion: "7", creationTimestamp: TIME };
  return { ...made, metadata } as unknown as IPAllocation;
}

const NAME = allocationName("blue", parseInterfaceAddress("10.0.0.7/24").address);
const PATH = `${ALLOCATIONS_PATH}/${NAME}`;

function begin() {
  const time = new VirtualTime();
  const api = new KubeInMemory(time.clock());
  const state = { idle: null as string | null, putBack: 0 };
  const said: string[] = [];
  const note = (...what: unknown[]) => void said.push(what.map((one) => JSON.stringify(one)).join(" "));
  const lost = new LostAllocations({
    api,
    events: { warn: ({ kind, name }, reason, message) => note(`${kind} ${name}`, reason, message) },
    onLost: () => {},
    onPutBack: () => {
      state.putBack += 1;
    },
    idle: () => state.idle,
    log: { info: note, warn: note, error: note },
  });
  const pass = () => time.run(lost.runPass(new AbortController().signal));
  return { time, api, lost, pass, state, said };
}

test("a deleted allocation that was in use is created again as it was, with its finalizer", async () => {
  const { api, lost, pass, state, said } = begin();
  const { metadata, ...had } = bound();
  const deleted = { ...had, metadata: { ...metadata, finalizers: [], deletionTimestamp: TIME } };
  lost.noteDeleted(deleted as IPAllocation);
  await pass();
  const { metadata: now, ...has } = api.at(PATH) as IPAllocation;
  expect(has).toEqual(had);
  expect(now).toMatchObject({
    labels: metadata.labels,
    finalizers: ["ipam.holdfast.dev/bound"],
  });
  expect(now.deletionTimestamp).toBeUndefined();
  expect(now.uid).not.toBe("u1");
  expect(state.putBack).toBe(1);
  expect(said.join("\n")).toContain("is put back");
  expect(said.join("\n")).toContain('"Restored"');
  await pass();
  expect(api.writes).toHaveLength(1);
});

test("a retained address is put back; what was released, or is no sound allocation, is not", async () => {
  const { api, lost, pass } = begin();
  lost.noteDeleted(cooled(bound(), TIME) as IPAllocation);
  lost.noteDeleted({ ...bound(), metadata: { ...bound().metadata, name: "another" } });
  lost.noteDeleted({ ...bound(), status: {} });
  await pass();
  expect(api.writes).toEqual([]);
  lost.noteDeleted(retained(bound(), TIME, TIME) as IPAllocation);
  await pass();
  expect((api.at(PATH) as IPAllocation).status?.state).toBe("Retained");
});

test("an address that another holder has got meanwhile stays that one's, and the loss is reported", async () => {
  const { api, lost, pass, said, state } = begin();
  const other: AllocationOwner = { ...OWNER, name: "web-1", uid: "p2" };
  api.put(ALLOCATIONS_PATH, bound(other));
  lost.noteDeleted(bound());
  await pass();
  expect((api.at(PATH) as IPAllocation).spec.owner.uid).toBe("p2");
  expect(state.putBack).toBe(0);
  expect(said.join("\n")).toMatch(/"Pod web-0" "AddressLost" .*belongs to pod shop\/web-1/);
  const count = said.length;
  await pass();
  expect(said).toHaveLength(count);
});

test("where its holder has it again, nothing is written or reported", async () => {
  const { api, lost, pass, said } = begin();
  api.put(ALLOCATIONS_PATH, bound());
  lost.noteDeleted(bound());
  await pass();
  expect(api.writes).toEqual([]);
  expect(said.join("\n")).not.toMatch(/AddressLost|Restored/);
});

test("a controller that does not lead writes nothing, and goes on where it leads within a minute", async () => {
  const { time, api, lost, pass, state } = begin();
  state.idle = "another controller works";
  lost.noteDeleted(bound());
  await pass();
  expect(api.writes).toEqual([]);
  await time.pass(50_000);
  state.idle = null;
  await pass();
  expect(api.at(PATH)).not.toBeNull();

  const late = begin();
  late.state.idle = "another controller works";
  late.lost.noteDeleted(bound());
  await late.time.pass(61_000);
  late.state.idle = null;
  await late.pass();
  expect(late.api.writes).toEqual([]);
});

test("an API server that does not answer is asked again, unless contact was lost", async () => {
  const { api, lost, pass } = begin();
  api.away = true;
  lost.noteDeleted(bound());
  await expect(pass()).rejects.toThrow(ApiAway);
  api.away = false;
  await pass();
  expect(api.at(PATH)).not.toBeNull();

  const cut = begin();
  cut.lost.noteDeleted(bound());
  cut.lost.noteState("watching");
  cut.lost.noteState("away");
  cut.lost.noteState("watching");
  await cut.pass();
  expect(cut.api.writes).toEqual([]);
});

test("what the API server refuses, as where the definition is being deleted, is said once and not tried again", async () => {
  const { api, lost, pass, said } = begin();
  let asked = 0;
  api.admit = () => {
    asked += 1;
    return "not now";
  };
  lost.noteDeleted(bound());
  await pass();
  await pass();
  expect(asked).toBe(1);
  expect(said).toHaveLength(1);
  expect(said[0]).toContain("not now");
});

const pathOf = ({ metadata }: { metadata: { name: string } }) => `${ALLOCATIONS_PATH}/${metadata.name}`;

describe("in a cluster", () => {
  let world: World;
  /** What becomes of the requests of the controllers. */
  let fate: Link["fate"];
  afterEach(() => world.stop());

  async function begin(controllers: number): Promise<Network> {
    fate = () => ({});
    world = await World.start({ api: "memory", nodes: ["n1"] });
    for (let count = 0; count < controllers; count += 1)
      await world.startController({ identity: `c${count}` }, { fate: (...of) => fate?.(...of) });
    return world.network("blue", { subnets: "10.1.0.0/24", cooldownSeconds: 20 });
  }

  async function isBack(net: Network, before: readonly KubeObject[]): Promise<boolean> {
    const uids = new Set(before.map(({ metadata }) => metadata.uid));
    const now = await world.allocations(net);
    return now.length === before.length && now.every(({ metadata }) => !uids.has(metadata.uid));
  }

  test("it is back at once, however it was taken, and with two controllers", async () => {
    const net = await begin(2);
    const [pod, vm] = [await world.guest(net, "n1"), await world.vmGuest(net, "n1")];
    await world.given(pod.pod, net);
    await world.given(vm.pod, net, vm.options);
    const before = await world.allocations(net);
    const [first, second] = before as [KubeObject, KubeObject];
    await world.cluster.api.patch(pathOf(first), { metadata: { finalizers: null } });
    await world.cluster.api.delete(pathOf(first));
    // The other way: a deletion that hangs, and then its finalizer.
    await world.cluster.api.delete(pathOf(second));
    await world.cluster.api.patch(pathOf(second), { metadata: { finalizers: null } });
    await world.until(() => isBack(net, before), "both to be back", 1_000);
    const parts = (all: readonly KubeObject[]) => all.map(({ spec, status }) => ({ spec, status }));
    expect(parts(await world.allocations(net))).toEqual(parts(before));
    await world.settled();
  });

  test("one whose deletion waits for its holder cools down, goes, and does not come back", async () => {
    const net = await begin(1);
    const pod = await world.guest(net, "n1");
    await world.given(pod.pod, net);
    const [object] = (await world.allocations(net)) as [KubeObject];
    await world.cluster.api.delete(pathOf(object));
    await world.del(pod.pod, net);
    await world.kubevirt.removePod(pod.pod);
    const state = async () => (await world.allocations(net))[0]?.status.state;
    await world.until(async () => (await state()) === "Cooling", "its release");
    await world.advance(15_000);
    expect(await state()).toBe("Cooling");
    await world.until(async () => (await state()) === undefined, "its end", 30_000);
    await world.advance(5_000);
    expect(await state()).toBeUndefined();
  });

  test("what an operator releases by force while it is being deleted stays released", async () => {
    const net = await begin(1);
    const pod = await world.guest(net, "n1");
    const [ip = ""] = await world.given(pod.pod, net);
    const [object] = (await world.allocations(net)) as [KubeObject];
    await world.cluster.api.delete(pathOf(object));
    const address = ip.split("/")[0] as string;
    const done = await world.node("n1").daemon.cli("release", address, "--network", "blue", "--force");
    expect(done.code, done.stdout + done.stderr).toBe(0);
    await world.advance(40_000);
    expect(await world.allocations(net)).toEqual([]);
  });

  test("a container that ends while its allocation is gone has it released once it is back", async () => {
    const net = await begin(1);
    const pod = await world.guest(net, "n1");
    await world.given(pod.pod, net);
    const before = await world.allocations(net);
    fate = ({ method, path }) => (method === "POST" && path === ALLOCATIONS_PATH ? { requestMs: 3_000 } : {});
    const [object] = before as [KubeObject];
    await world.cluster.api.patch(pathOf(object), { metadata: { finalizers: null } });
    await world.cluster.api.delete(pathOf(object));
    await world.del(pod.pod, net);
    await world.kubevirt.removePod(pod.pod);
    await world.until(() => isBack(net, before), "it to be back");
    await world.until(async () => (await world.bound(net)).length === 0, "its release", 300_000);
  });

  test("what is only missing in a list is left to the node, which marks its network", async () => {
    const net = await begin(1);
    const pod = await world.guest(net, "n1");
    await world.given(pod.pod, net);
    const before = await world.allocations(net);
    await world.advance(2_000);
    const { etcd } = (world.cluster as MemoryCluster).objects;
    await world.cluster.stopApiServer();
    const name = before[0]?.metadata.name as string;
    etcd.delete("ipam.holdfast.dev/ipallocations", name);
    etcd.bump(10);
    etcd.compact();
    const created: string[] = [];
    fate = ({ method, path }) => {
      if (method === "POST" && path === ALLOCATIONS_PATH) created.push(path);
      return {};
    };
    await world.cluster.startApiServer();
    await world.until(() => isBack(net, before), "its node to restore it", 60_000);
    await world.advance(5_000);
    expect(created).toEqual([]);
    await world.settled();
  });
});
