import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import * as relations from "../../claims/reasons/relations.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationOwner,
  CLAIMS_PATH,
  type IPAllocation,
  namespacedPath,
  PODS_PATH,
} from "../../kube/objects.ts";
import type { Link } from "../harness/kube-fake/client/link.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

// What the controller asks of the API server and of itself when a cluster is large, and how soon it is done, at its
// default pace.

const TIME = "2026-01-01T00:00:00.000Z";
const GRACE_MS = 30_000;
const PACE = { sweepIntervalSeconds: 10, sweepGraceSeconds: GRACE_MS / 1_000 };
const NETWORK = "large";

let world: World;
/** What the controller has asked for, and when, ms of the world. */
let asked: { readonly what: string; readonly atMs: number }[];

beforeEach(async () => {
  world = await World.start({ api: "memory" });
  asked = [];
});
afterEach(() => world.stop());

/** Each request and each answer takes so long on its way, ms. */
function slowly(ms: number): Link {
  return {
    fate: ({ method, path, query }, verb) => {
      // The pages of a list count once.
      if (verb !== "watch" && !query?.continue) asked.push({ what: `${verb} ${method} ${path}`, atMs: nowMs() });
      return { requestMs: ms, answerMs: ms };
    },
  };
}

function nowMs(): number {
  return world.time.clock.monotonicMs();
}

/** Puts an object into the server as if it had always been there. */
function put(collection: string, object: object): { metadata: { uid: string } } {
  return (world.cluster as MemoryCluster).objects.put(collection, object) as { metadata: { uid: string } };
}

function allocate(index: number, owner: AllocationOwner, cooling = false): void {
  const address = { family: 4 as const, value: 0x0a080000n + BigInt(index) + 1_000n };
  const made = newAllocation(NETWORK, { address, prefixLength: 16 }, { owner, attachment: null, node: "n1" }, TIME);
  const { finalizers: _, ...metadata } = made.metadata as IPAllocation["metadata"];
  put(ALLOCATIONS_PATH, cooling ? { ...made, metadata, status: { ...made.status, state: "Cooling" } } : made);
}

/** Claims that list an address each, with its allocation. */
function claims(count: number): void {
  for (let index = 0; index < count; index += 1) {
    const name = `vm-${index}`;
    const value = 1_000 + index;
    const ips = [`10.8.${Math.floor(value / 256)}.${value % 256}/16`];
    const { metadata } = put(namespacedPath(CLAIMS_PATH, NAMESPACE), {
      metadata: { name, namespace: NAMESPACE },
      spec: { network: NETWORK, interface: "" },
      status: { ips },
    });
    allocate(index, { kind: "IPAMClaim", namespace: NAMESPACE, name, uid: metadata.uid, interface: "" });
  }
}

function inState(state: string): IPAllocation[] {
  const all = (world.cluster as MemoryCluster).objects.etcd.range("ipam.holdfast.dev/ipallocations", "");
  return all.map(({ object }) => object as IPAllocation).filter(({ status }) => status?.state === state);
}

function countOf(state: string): number {
  return inState(state).length;
}

describe("2,200 claims with an address each", () => {
  beforeEach(async () => {
    await world.kubevirt.createNode("n1");
    claims(2_200);
  });

  test("of which one is deleted, and one pod: nothing is judged but what they concern, and a slice of all", async () => {
    const pod = await world.kubevirt.createPod(NAMESPACE, "web", { node: "n1" });
    const { namespace, name, uid } = pod.metadata;
    allocate(5_000, { kind: "Pod", namespace, name, uid, interface: "net1" });
    await world.startController(PACE, slowly(2));
    await world.importedNetwork(NETWORK, { subnets: "10.8.0.0/16" });
    await world.advance(30_000);
    const judged = vi.spyOn(relations, "judge");
    await world.deleteClaim("vm-7");
    await world.kubevirt.endPod(pod);
    const startMs = nowMs();
    await world.until(() => countOf("Cooling") === 2, "both to rest");
    expect(nowMs() - startMs).toBeGreaterThanOrEqual(GRACE_MS);
    expect(nowMs() - startMs).toBeLessThan(GRACE_MS + 5_000);
    // 35 of 600 s: 6 % of all, and the two a few times.
    expect(judged.mock.calls.length).toBeLessThan(300);
    judged.mockRestore();
  });

  test("of which 2,000 are deleted at once: all rest 30 s after the grace, and pods are listed once for a group", async () => {
    await world.startController(PACE, slowly(5));
    await world.importedNetwork(NETWORK, { subnets: "10.8.0.0/16" });
    await world.advance(30_000);
    asked = [];
    for (let index = 0; index < 2_000; index += 1) await world.deleteClaim(`vm-${index}`);
    await world.advance(GRACE_MS + 30_000);
    expect(countOf("Cooling")).toBe(2_000);
    expect(countOf("Bound")).toBe(200);
    // Each cool-down begins with its write, by a clock of whole seconds, and not when its group was read.
    const written = new Map(asked.map(({ what, atMs }) => [what, atMs] as const));
    for (const { metadata, status } of inState("Cooling")) {
      const sentMs = written.get(`send PUT ${ALLOCATIONS_PATH}/${metadata.name}`) ?? 0;
      const sinceMs = Date.parse(status?.since ?? "") - world.time.clock.wallMs() + nowMs();
      expect(Math.abs(sinceMs - sentMs)).toBeLessThan(2_200);
    }
    const lists = asked.filter(({ what }) => what === `list GET ${namespacedPath(PODS_PATH, NAMESPACE)}`);
    expect(lists.length).toBeGreaterThan(0);
    expect(lists.length).toBeLessThanOrEqual(25);
  });
});

test("3,000 objects that have cooled down long enough are deleted at 200 a second, by a server that takes 20 ms", async () => {
  await world.kubevirt.createNode("n1");
  for (let index = 0; index < 3_000; index += 1)
    allocate(index, { kind: "Pod", namespace: NAMESPACE, name: `p-${index}`, uid: `u-${index}`, interface: "" }, true);
  await world.startController({ ...PACE, coolingKeepSeconds: 30 }, slowly(10));
  await world.importedNetwork(NETWORK, { subnets: "10.8.0.0/16", cooldownSeconds: 30 });
  await world.advance(90_000);
  expect(countOf("Cooling")).toBe(0);
  const deletions = asked.filter(({ what }) => what.startsWith(`send DELETE ${ALLOCATIONS_PATH}`));
  expect(deletions).toHaveLength(3_000);
  const tookMs = (deletions.at(-1)?.atMs ?? 0) - (deletions[0]?.atMs ?? 0);
  expect(tookMs).toBeLessThan(11_000);
});
