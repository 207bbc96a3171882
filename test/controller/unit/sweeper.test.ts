import { expect, test } from "vitest";
import { newAllocation, withAttachment } from "../../../allocations/allocation-object.ts";
import { type CachedAllocation, type ClaimViewWithFact, projectAllocation } from "../../../claims/reasons/caches.ts";
import { claimFact, nodeFact, projectSweptPod, type SweptPod } from "../../../claims/reasons/fact-views.ts";
import type { NodeFact } from "../../../claims/reasons/facts.ts";
import { StoppedPods } from "../../../claims/reasons/stopped-pods.ts";
import type { Rules } from "../../../claims/reasons/verdict.ts";
import { followChanges } from "../../../controller/sweep/follow-changes.ts";
import { Sweeper } from "../../../controller/sweep/sweeper.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationAttachment,
  type AllocationOwner,
  CLAIMS_PATH,
  type IPAllocation,
  type IPNetwork,
  NODES_PATH,
  namespacedPath,
  PODS_PATH,
} from "../../../kube/objects.ts";
import type { Reflected } from "../../../kube/reflected-items.ts";
import { projectClaim } from "../../../kube/views/claim-view.ts";
import { CLAIM, POD, RULES } from "../../claims/judged.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { WrittenCopy } from "./written-copy.ts";

const PODS = namespacedPath(PODS_PATH, "shop");
const CLAIMS = namespacedPath(CLAIMS_PATH, "shop");
const SILENT = { debug() {}, info() {}, warn() {} };
const signal = new AbortController().signal;

/**
 * A cluster in memory and the controller that sweeps it, whose caches are copied from the server when `look` is called.
 */
class SweptCluster {
  readonly clock: ManualClock;
  readonly api: KubeInMemory;
  readonly sweeper: Sweeper;
  idle: string | null = null;
  doubt: string | null = null;
  readonly #copies = {
    allocations: new WrittenCopy<CachedAllocation>(),
    claims: new WrittenCopy<ClaimViewWithFact>(),
    pods: new WrittenCopy<SweptPod>(),
    nodes: new WrittenCopy<NodeFact & Reflected>(),
  };
  readonly #stoppedPods = new StoppedPods();

  constructor(rules: Partial<Rules> = {}, clock = new ManualClock(), api = new KubeInMemory(clock)) {
    this.clock = clock;
    this.api = api;
    this.sweeper = new Sweeper({
      api,
      caches: {
        ...this.#copies,
        stoppedPods: this.#stoppedPods,
        catalog: { networkOfNad: () => null },
        machines: null,
      },
      rules: { ...RULES, ...rules },
      intervalSeconds: 10,
      doubt: () => this.doubt,
      idle: () => this.idle,
      log: SILENT,
    });
    const networks = new WrittenCopy<{ object: IPNetwork }>();
    followChanges({ ...this.#copies, networks, machines: null, data: null }, this.sweeper);
  }

  /** Copies the server's objects into the caches. */
  look(): void {
    const all = [...this.api.objects];
    const of = (part: string) => all.filter(([path]) => path.includes(part)).map(([, object]) => object);
    const byKey = <T extends { key: string }>(items: readonly T[]) => new Map(items.map((one) => [one.key, one]));
    const { allocations, claims, pods, nodes } = this.#copies;
    const living = byKey(of("/pods/").map((one) => projectSweptPod(one)));
    for (const pod of pods.items.values()) if (living.get(pod.key)?.uid !== pod.uid) this.#stoppedPods.noteGone(pod);
    allocations.replace(byKey(of("/ipallocations/").map((one) => projectAllocation(one))));
    const views = of("/ipamclaims/").map((object) => projectClaim(object));
    claims.replace(byKey(views.map((one) => ({ ...one, fact: claimFact(one) }))));
    pods.replace(living);
    const projected = of("/nodes/").map((one) => ({
      ...nodeFact(one),
      ...one.metadata,
      key: one.metadata.name,
    }));
    nodes.replace(byKey(projected));
  }

  /** Passes every ten seconds. */
  async sweepFor(seconds: number): Promise<void> {
    for (let passed = 0; passed <= seconds; passed += 10) {
      this.look();
      await this.pass();
      this.clock.nowMs += 10_000;
    }
  }

  async pass(): Promise<void> {
    await this.sweeper.runTurn(signal);
    await this.sweeper.carryOutDue(signal);
  }

  /** Without an attachment it is one from before Holdfast, of a pod on `node`; null: whoever recorded it knew none. */
  allocate(
    owner: AllocationOwner,
    attachment: AllocationAttachment | null = null,
    node: string | null = "n1",
  ): IPAllocation {
    const one = parseInterfaceAddress("10.0.0.5/24");
    const holder = { owner, attachment, ...(node === null ? {} : { node }) };
    return this.api.put(ALLOCATIONS_PATH, newAllocation("blue", one, holder, "2026-01-01T00:00:00Z"));
  }

  node(ready: "True" | "False" | "Unknown"): void {
    const status = { conditions: [{ type: "Ready", status: ready }] };
    this.api.put(NODES_PATH, { metadata: { name: "n1" }, status });
  }

  claim(ips: readonly string[], uid = "c1"): void {
    this.api.put(CLAIMS, {
      metadata: { name: "vm1", namespace: "shop", uid, creationTimestamp: "2026-01-01T00:00:00Z" },
      spec: { network: "blue", interface: "" },
      status: { ips },
    });
  }

  removePod(): void {
    this.api.remove(`${PODS}/web`);
  }

  pod(uid: string, claim: string | null, status: object = { phase: "Running" }, metadata: object = {}): void {
    const networks = JSON.stringify([{ name: "blue", ...(claim === null ? {} : { "ipam-claim-reference": claim }) }]);
    this.api.put(PODS, {
      metadata: {
        name: "web",
        namespace: "shop",
        uid,
        creationTimestamp: "2026-01-01T00:00:00Z",
        annotations: { "k8s.v1.cni.cncf.io/networks": networks },
        ...metadata,
      },
      spec: { nodeName: "n1" },
      status,
    });
  }

  get allocation(): IPAllocation | undefined {
    const [path] = [...this.api.objects.keys()].filter((one) => one.startsWith(ALLOCATIONS_PATH));
    return path === undefined ? undefined : this.api.at(path);
  }

  get state(): string | undefined {
    return this.allocation === undefined ? "deleted" : this.allocation.status?.state;
  }
}

const ATTACHMENT: AllocationAttachment = {
  containerID: "c1",
  interface: "net1",
  node: "n1",
  pod: { namespace: "shop", name: "web", uid: "p1" },
  since: "2026-01-01T00:00:00Z",
};

test("an address is freed after two passes and the grace, not before", async () => {
  const cluster = new SweptCluster();
  cluster.allocate(CLAIM);
  await cluster.sweepFor(20);
  expect(cluster.state).toBe("Bound");
  await cluster.sweepFor(20);
  expect(cluster.state).toBe("Cooling");
  const [write] = cluster.api.writes;
  expect(write).toMatchObject({ method: "PUT", priority: "housekeeping" });
  expect(cluster.api.writes).toHaveLength(1);
});

test("two passes with a long gap between them do not count as an observed grace", async () => {
  const cluster = new SweptCluster();
  cluster.allocate(CLAIM);
  await cluster.sweepFor(0);
  cluster.clock.nowMs += 3_600_000;
  await cluster.sweepFor(20);
  expect(cluster.state).toBe("Bound");
});

test("a change of the allocation restarts the grace", async () => {
  const cluster = new SweptCluster();
  const object = cluster.allocate(CLAIM);
  await cluster.sweepFor(20);
  cluster.api.put(ALLOCATIONS_PATH, { ...object, metadata: { ...object.metadata, labels: { note: "1" } } });
  await cluster.sweepFor(20);
  expect(cluster.state).toBe("Bound");
});

test("nothing is freed while the controller is idle, a cache is incomplete or the API refuses", async () => {
  const cluster = new SweptCluster();
  cluster.allocate(CLAIM);
  cluster.doubt = "the pods are not listed yet";
  await cluster.sweepFor(100);
  cluster.doubt = null;
  cluster.idle = "another controller works";
  await cluster.sweepFor(100);
  cluster.idle = null;
  cluster.api.away = true;
  await cluster.sweepFor(100);
  cluster.api.away = false;
  cluster.api.missing.add(CLAIMS_PATH.replace("/ipamclaims", "/"));
  await cluster.sweepFor(100);
  expect(cluster.state).toBe("Bound");
  cluster.api.missing.clear();
  await cluster.sweepFor(0);
  expect(cluster.state).toBe("Cooling");
});

test("a claim that the cache has not seen yet is found by the quorum read", async () => {
  const cluster = new SweptCluster();
  cluster.allocate(CLAIM);
  await cluster.sweepFor(20);
  cluster.look();
  cluster.claim([]);
  await cluster.pass();
  expect(cluster.state).toBe("Bound");
});

test("a pod that names the claim, and that the cache has not seen yet, holds the address", async () => {
  const cluster = new SweptCluster();
  cluster.allocate(CLAIM);
  await cluster.sweepFor(20);
  cluster.look();
  cluster.clock.nowMs += 20_000;
  cluster.pod("p7", "vm1");
  await cluster.pass();
  expect(cluster.state).toBe("Bound");
});

test("an attachment that is written between the last read and the write keeps the address", async () => {
  const cluster = new SweptCluster();
  const object = cluster.allocate(POD);
  await cluster.sweepFor(20);
  cluster.api.before = ({ method }) => {
    if (method !== "PUT") return;
    cluster.api.before = () => {};
    cluster.api.put(ALLOCATIONS_PATH, withAttachment(object, ATTACHMENT));
  };
  await cluster.sweepFor(20);
  expect(cluster.state).toBe("Bound");
  expect(cluster.api.writes).toHaveLength(0);
});

test("a controller that continues a release after another owner has the address changes nothing", async () => {
  const first = new SweptCluster();
  const second = new SweptCluster({}, first.clock, first.api);
  const object = first.allocate(POD);
  for (let passed = 0; passed <= 20; passed += 10) {
    for (const one of [first, second]) {
      one.look();
      await one.pass();
    }
    first.clock.nowMs += 10_000;
  }
  let wake = () => {};
  const asleep = new Promise<void>((stopped) => {
    first.api.before = ({ method }) => {
      if (method !== "PUT") return undefined;
      first.api.before = () => {};
      stopped();
      return new Promise<void>((resolve) => {
        wake = resolve;
      });
    };
  });
  first.look();
  first.clock.nowMs += 20_000;
  const stopped = first.pass();
  await asleep;
  second.look();
  await second.pass();
  expect(second.state).toBe("Cooling");
  const [path = ""] = [...first.api.objects.keys()];
  const next = newAllocation(
    "blue",
    parseInterfaceAddress("10.0.0.5/24"),
    { owner: { ...POD, uid: "p2" }, attachment: null },
    "",
  );
  first.api.put(ALLOCATIONS_PATH, { ...next, metadata: { ...next.metadata, uid: object.metadata.uid } });
  wake();
  await stopped;
  expect(first.api.at(path)).toMatchObject({ spec: { owner: { uid: "p2" } }, status: { state: "Bound" } });
});

test("a Cooling object is deleted after its cooldown and its keeping time, with a precondition on its UID", async () => {
  const cluster = new SweptCluster({ coolingKeepSeconds: 40 });
  cluster.allocate(CLAIM);
  await cluster.sweepFor(40);
  expect(cluster.state).toBe("Cooling");
  const { uid } = [...cluster.api.objects.values()][0].metadata;
  await cluster.sweepFor(80);
  expect(cluster.state).toBe("Cooling");
  await cluster.sweepFor(40);
  expect(cluster.state).toBe("deleted");
  expect(cluster.api.writes.at(-1)?.body).toMatchObject({ preconditions: { uid } });
});

test("attachments on a node that is gone are pruned; the claim keeps the address", async () => {
  const cluster = new SweptCluster();
  cluster.claim(["10.0.0.5/24"]);
  cluster.allocate(CLAIM, ATTACHMENT);
  cluster.api.put(NODES_PATH, { metadata: { name: "n1" } });
  await cluster.sweepFor(40);
  expect(cluster.api.writes).toHaveLength(0);
  cluster.api.remove(`${NODES_PATH}/n1`);
  await cluster.sweepFor(40);
  expect([...cluster.api.objects.values()].find(({ kind }) => kind === "IPAllocation").status).toMatchObject({
    state: "Bound",
    attachments: {},
  });
});

const DELETED = { deletionTimestamp: "2026-01-01T00:00:30Z" };
const ENDED = { phase: "Running", containerStatuses: [{ state: { terminated: { exitCode: 0 } } }] };
const RUNNING = { phase: "Running", containerStatuses: [{ state: { running: {} } }] };

test("an address from before Holdfast is freed after its kubelet has ended the pod", async () => {
  const cluster = new SweptCluster();
  cluster.node("True");
  cluster.allocate(POD);
  cluster.pod("p1", null, ENDED, DELETED);
  await cluster.sweepFor(0);
  expect(cluster.state).toBe("Bound");
  cluster.removePod();
  await cluster.sweepFor(40);
  expect(cluster.state).toBe("Cooling");
});

test.each([
  ["was deleted by force", RUNNING, DELETED],
  ["was deleted by force between two starts of its container", ENDED, {}],
])("an address from before Holdfast whose pod %s is held until its node is gone", async (_, status, metadata) => {
  const cluster = new SweptCluster();
  cluster.node("True");
  cluster.allocate(POD);
  cluster.pod("p1", null, status, metadata);
  await cluster.sweepFor(0);
  cluster.removePod();
  await cluster.sweepFor(100);
  expect(cluster.api.writes).toHaveLength(0);
  cluster.api.remove(`${NODES_PATH}/n1`);
  await cluster.sweepFor(40);
  expect(cluster.state).toBe("Cooling");
});

test("a controller that was started after the end of a pod from before Holdfast holds its address", async () => {
  const cluster = new SweptCluster();
  cluster.node("True");
  cluster.allocate(POD);
  await cluster.sweepFor(100);
  expect(cluster.api.writes).toHaveLength(0);
});

test("an address that was recorded without its node, by hand or when its pod named none, gets it while the pod lives", async () => {
  const cluster = new SweptCluster();
  cluster.node("True");
  cluster.allocate(POD, null, null);
  cluster.pod("p1", null);
  await cluster.sweepFor(40);
  expect(cluster.allocation?.status).toMatchObject({ state: "Bound", node: "n1", attachments: {} });
  expect(cluster.api.writes).toHaveLength(1);
  await cluster.sweepFor(100);
  expect(cluster.api.writes).toHaveLength(1);
});

test("podGoneReleaseSeconds runs only while the node of a missing pod is unreachable", async () => {
  const cluster = new SweptCluster({ podGoneReleaseSeconds: 60 });
  cluster.allocate(POD, ATTACHMENT);
  cluster.node("True");
  await cluster.sweepFor(200);
  cluster.node("Unknown");
  await cluster.sweepFor(40);
  cluster.node("False");
  await cluster.sweepFor(0);
  cluster.node("Unknown");
  await cluster.sweepFor(50);
  expect(cluster.api.writes).toHaveLength(0);
  await cluster.sweepFor(20);
  expect(cluster.state).toBe("Cooling");
});

test("counts say how many allocations there are of each verdict", async () => {
  const cluster = new SweptCluster();
  cluster.claim([]);
  cluster.allocate(CLAIM);
  cluster.api.put(ALLOCATIONS_PATH, { kind: "IPAllocation", metadata: { name: "nonsense" }, spec: {} });
  await cluster.sweepFor(0);
  expect(Object.fromEntries(cluster.sweeper.counts)).toEqual({
    "keep claim-says-otherwise": 1,
    "report unsound": 1,
  });
});
