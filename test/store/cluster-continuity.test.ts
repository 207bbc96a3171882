import pino from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { AllocationClient } from "../../allocations/allocation-client.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { KubeAnswer, KubeRequest } from "../../kube/kube-api.ts";
import { networkObjectName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPNetwork, NETWORKS_PATH, objectPath } from "../../kube/objects.ts";
import { sleep } from "../../platform/time.ts";
import { ClusterContinuity } from "../../store/cluster/contact/cluster-continuity.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import { nameOf } from "../harness/world/network.ts";

/** The allocation that the node writes. */
const WRITTEN = objectPath(ALLOCATIONS_PATH, nameOf("blue", "10.0.0.1/24"));
const HOLDER = {
  owner: { kind: "Pod", namespace: "shop", name: "web", uid: "u1", interface: "net1" },
  attachment: { containerID: "c1", interface: "net1", node: "node-a", since: "2026-01-01T00:00:00Z" },
  vm: undefined,
  mac: null,
} as never;

/** A server that says what time it is. */
class DatedServer extends KubeInMemory {
  override async send(request: KubeRequest): Promise<KubeAnswer> {
    return { ...(await super.send(request)), serverMs: this.clock.wallMs() };
  }
}

const PATH = objectPath(NETWORKS_PATH, networkObjectName("blue"));

function clusterContinuity({ recoveryMs = 4_000, compareMs = 0 } = {}) {
  const time = new VirtualTime();
  let comparisons = 0;
  const compare = async () => {
    const { gap } = contact.continuity;
    await sleep(api.clock, compareMs);
    contact.continuity.noteCompared(gap);
    comparisons += 1;
  };
  const api = new DatedServer(time.clock());
  api.put(NETWORKS_PATH, { metadata: { name: networkObjectName("blue") }, spec: { network: "blue" } });
  const contact: ClusterContinuity = new ClusterContinuity({
    api,
    node: "node-a",
    recoveryMs,
    log: pino({ level: "silent" }),
    readMark: async (network) => contact.seen(network, api.at(PATH) as IPNetwork),
    relist: () => {},
    compare: () => void compare(),
  });
  onTestFinished(() => contact.stop());
  return { time, api, contact, continuity: contact.continuity, comparisons: () => comparisons };
}

test("a node's own mark that is read again after another node's is removed, without any ADD", async () => {
  const { time, api, contact, continuity } = clusterContinuity({ recoveryMs: 100 });
  const marked = continuity.missing("blue", "node-a: it has put back 2");
  // What was read before the mark was written, and the mark itself when its node would have taken it off already.
  continuity.noteMark("blue", { id: "node-b" });
  await marked;
  const own = recoveryMark(api.at(PATH));
  expect(own).toEqual({ id: expect.any(String), seconds: 1, message: "node-a: it has put back 2; for 1 s" });
  await time.pass(550);
  continuity.noteMark("blue", own);
  await time.until(() => recoveryMark(api.at(PATH)) === null, "the end of the recovery");
  expect(continuity.recovering).toEqual([]);
  expect(api.at(PATH).status.recovery).toBeUndefined();
  contact.stop();
});

test.each([
  // A list heals a watch that was refused as expired: the state stays "away" until the next watch is there.
  ["the watch is there before any probe", ["watching"], 0],
  ["a probe is answered long before the watch is there", [], 3_000],
] as const)("after a gap a node compares and admits again where %s", async (_which, states, waitMs) => {
  const { time, contact, continuity, comparisons } = clusterContinuity({ compareMs: 200 });
  contact.noteState("watching");
  contact.noteState("away");
  expect(continuity.closed).not.toBeNull();
  await time.pass(waitMs);
  for (const state of states) contact.noteState(state);
  await time.until(() => continuity.closed === null, "the end of the gap");
  expect(comparisons()).toBe(1);
  contact.stop();
});

describe("a node that writes while it may", () => {
  /** How long after the contact it gives again, ms. */
  async function gives(meanwhile: (api: KubeInMemory) => void, { gaps = 1 } = {}): Promise<number> {
    const { time, api, contact, continuity } = clusterContinuity({ compareMs: 200 });
    const client = new AllocationClient(api, "add", continuity);
    contact.noteState("watching");
    const create = client.create(newAllocation("blue", parseInterfaceAddress("10.0.0.1/24"), HOLDER, ""), 60_000);
    await time.run(create);
    for (let count = 0; count < gaps; count += 1) {
      contact.noteState("away");
      meanwhile(api);
      await time.pass(300);
      contact.noteState("watching");
      if (count + 1 < gaps) await time.pass(100);
    }
    const contactMs = time.nowMs;
    while (!continuity.isSettled) await time.pass(100);
    contact.stop();
    return time.nowMs - contactMs;
  }

  test("gives again once it has compared, where its last write is as it was", async () => {
    expect(await gives(() => {})).toBeLessThan(1_000);
  });

  test("does so after gaps within gaps", async () => {
    expect(await gives(() => {}, { gaps: 4 })).toBeLessThan(1_000);
  });

  test.each([
    ["has gone", (api: KubeInMemory) => api.remove(WRITTEN)],
    ["has another version", (api: KubeInMemory) => api.put(ALLOCATIONS_PATH, api.at(WRITTEN))],
  ])("gives the others their time where its last write %s", async (_how, meanwhile) => {
    expect(await gives(meanwhile)).toBeGreaterThanOrEqual(4_000);
  });

  test("counts no write that was answered after a gap: by a restored server, perhaps", async () => {
    const { time, api, contact, continuity } = clusterContinuity();
    contact.noteState("watching");
    const client = new AllocationClient(api, "add", continuity);
    const { send } = api;
    api.send = async (request) => {
      if (request.method !== "POST") return send.call(api, request);
      request.unless?.();
      contact.noteState("away");
      contact.noteState("watching");
      await sleep(api.clock, 0);
      return send.call(api, { ...request, unless: () => null });
    };
    await time.run(client.create(newAllocation("blue", parseInterfaceAddress("10.0.0.1/24"), HOLDER, ""), 60_000));
    expect(continuity.witness).toBeNull();
    contact.stop();
  });

  test("counts no write that it sent while the others had their time", async () => {
    const { time, api, contact, continuity } = clusterContinuity({ compareMs: 200 });
    contact.noteState("watching");
    contact.noteState("away");
    contact.noteState("watching");
    await time.pass(1_000);
    const client = new AllocationClient(api, "add", continuity);
    await time.run(client.create(newAllocation("blue", parseInterfaceAddress("10.0.0.1/24"), HOLDER, ""), 60_000));
    expect(continuity.witness).toBeNull();
    contact.stop();
  });
});
