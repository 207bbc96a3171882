/** What is written when a machine's address is freed, in which order, and what happens when something comes between. */
import { beforeEach, expect, test } from "vitest";
import { newAllocation } from "../../../allocations/allocation-object.ts";
import { type CachedAllocation, type ClaimViewWithFact, projectAllocation } from "../../../claims/reasons/caches.ts";
import type { SweptPod } from "../../../claims/reasons/fact-views.ts";
import { type Found, type NamespaceFact, type NodeFact, UNKNOWN } from "../../../claims/reasons/facts.ts";
import { followChanges } from "../../../controller/sweep/follow-changes.ts";
import { Sweeper } from "../../../controller/sweep/sweeper.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ApiAway, type KubeRequest } from "../../../kube/kube-api.ts";
import { allocationName } from "../../../kube/object-names.ts";
import {
  ADDRESS_POOLS_PATH,
  ALLOCATIONS_PATH,
  type AllocationOwner,
  type IPNetwork,
  NETWORKS_PATH,
  NODES_PATH,
  namespacedPath,
} from "../../../kube/objects.ts";
import type { Reflected } from "../../../kube/reflected-items.ts";
import { type AddressPoolView, projectAddressPool } from "../../../kube/views/address-pool-view.ts";
import {
  type CapiClusterView,
  type MachineAddressView,
  type MachineClaimView,
  projectCapiCluster,
  projectMachineAddress,
  projectMachineClaim,
} from "../../../kube/views/machine-claim-view.ts";
import { RULES } from "../../claims/judged.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { collectionOf } from "../../harness/kube-manifests.ts";
import { capiDefinitions, type IpamVersion } from "../../harness/machines/definitions.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { WrittenCopy } from "./written-copy.ts";

const ADDRESS = parseInterfaceAddress("10.0.0.5/24");
const ALLOCATION = `${ALLOCATIONS_PATH}/${allocationName("blue", ADDRESS.address)}`;
const POOL = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "blue" };
const OWNER: AllocationOwner = {
  kind: "IPAddressClaim",
  namespace: "shop",
  name: "m0",
  uid: "c1",
  interface: "",
  cluster: "prod",
};
const signal = new AbortController().signal;

/** A cluster in memory with Cluster API, and the controller that sweeps it. */
class SweptMachines {
  readonly clock = new ManualClock();
  readonly api = new KubeInMemory(this.clock);
  readonly sweeper: Sweeper;
  readonly seenPaused = new Set<string>();
  namespace: Found<NamespaceFact> = UNKNOWN;
  readonly #allocations = new WrittenCopy<CachedAllocation>();
  readonly #networks = new WrittenCopy<{ object: IPNetwork }>();
  readonly #machines = {
    claims: new WrittenCopy<MachineClaimView>(),
    addresses: new WrittenCopy<MachineAddressView>(),
    pools: new WrittenCopy<AddressPoolView>(),
    clusters: new WrittenCopy<CapiClusterView>(),
  };
  readonly #version: IpamVersion;

  constructor(version: IpamVersion = "v1beta2") {
    this.#version = version;
    for (const one of capiDefinitions(version)) this.api.server.put(collectionOf(one), one);
    const [allocations, networks, machines] = [this.#allocations, this.#networks, this.#machines];
    const none = {
      claims: new WrittenCopy<ClaimViewWithFact>(),
      pods: new WrittenCopy<SweptPod>(),
      nodes: new WrittenCopy<NodeFact & Reflected>(),
    };
    this.sweeper = new Sweeper({
      api: this.api,
      caches: {
        ...{ ...none, allocations },
        stoppedPods: { has: () => false },
        catalog: { networkOfNad: () => null },
        machines: {
          ...{ ...machines, networks, data: null },
          namespaceOf: () => this.namespace,
          wasSeenPaused: (cluster) => this.seenPaused.has(cluster),
          servedPath: () => null,
          // Only what is known to be served is believed.
          addressAt: (key) => (version === "v1beta2" ? (machines.addresses.items.get(key) ?? null) : null),
        },
      },
      rules: RULES,
      intervalSeconds: 10,
      doubt: () => null,
      idle: () => null,
      log: { debug() {}, info() {}, warn() {} },
    });
    followChanges({ ...none, allocations, networks, machines, data: null }, this.sweeper);
  }

  path(plural: "ipaddressclaims" | "ipaddresses", name = "m0"): string {
    return `/apis/ipam.cluster.x-k8s.io/${this.#version}/namespaces/shop/${plural}/${name}`;
  }

  get clusters(): string {
    return `/apis/cluster.x-k8s.io/${this.#version === "v1beta2" ? "v1beta2" : "v1beta1"}/namespaces/shop/clusters`;
  }

  /** A machine with its address, whose claim is gone. */
  release(): void {
    this.api.put(NETWORKS_PATH, { metadata: { name: "blue" }, spec: { network: "blue" } });
    this.api.put(this.clusters, { metadata: { name: "prod", namespace: "shop", uid: "k1" }, spec: {} });
    this.api.put(
      ALLOCATIONS_PATH,
      newAllocation("blue", ADDRESS, { owner: OWNER, attachment: null }, "2026-01-01T00:00:00Z"),
    );
    this.tell("10.0.0.5");
  }

  tell(address: string, change: object = {}): void {
    this.api.put(this.path("ipaddresses").replace("/m0", ""), {
      metadata: { name: "m0", namespace: "shop", ...change },
      spec: { claimRef: { name: "m0" }, poolRef: POOL, address, prefix: 24 },
    });
  }

  claim(uid: string): void {
    this.api.put(this.path("ipaddressclaims").replace("/m0", ""), {
      metadata: { name: "m0", namespace: "shop", uid },
      spec: { poolRef: POOL, clusterName: "prod" },
    });
  }

  /** Passes every ten seconds. */
  async sweepFor(seconds: number): Promise<void> {
    for (let passed = 0; passed <= seconds; passed += 10) {
      this.#look();
      await this.sweeper.runTurn(signal);
      await this.sweeper.carryOutDue(signal);
      this.clock.nowMs += 10_000;
    }
  }

  get state(): string | undefined {
    return this.api.at(ALLOCATION)?.status.state;
  }

  get told(): string | undefined {
    return this.api.at(this.path("ipaddresses"))?.spec.address;
  }

  /** Methods and kinds of what was written. */
  get written(): string[] {
    return this.api.writes.map(({ method, path }) => `${method} ${path.split("/").at(-2)}`);
  }

  /** Copies the server's objects into the caches. */
  #look(): void {
    const all = [...this.api.objects];
    const show = <T extends object>(
      copy: WrittenCopy<T>,
      part: string,
      project: (object: never) => T,
      named = false,
    ) => {
      const found = all.filter(([path]) => path.includes(`/${part}/`));
      const keyed = found.map(([, object]) => {
        const { namespace, name } = object.metadata;
        return [named ? name : `${namespace}/${name}`, project(object as never)] as const;
      });
      copy.replace(new Map(keyed));
    };
    const { claims, addresses, pools, clusters } = this.#machines;
    show(claims, "ipaddressclaims", projectMachineClaim);
    show(addresses, "ipaddresses", projectMachineAddress);
    show(pools, "addresspools", projectAddressPool);
    show(clusters, "clusters", projectCapiCluster);
    show(this.#networks, "ipnetworks", (object) => ({ object }), true);
    show(this.#allocations, "ipallocations", projectAllocation, true);
  }
}

let cluster: SweptMachines;
beforeEach(() => {
  cluster = new SweptMachines();
  cluster.release();
});

/** Runs once, before the first request of a kind. */
function onceBefore(method: KubeRequest["method"], part: string, act: () => void): void {
  let done = false;
  cluster.api.before = (request) => {
    if (done || request.method !== method || !request.path.includes(part)) return;
    done = true;
    act();
  };
}

test("the IPAddress is deleted before the allocation is released, each at the version that was read", async () => {
  await cluster.sweepFor(40);
  expect(cluster.written).toEqual(["DELETE ipaddresses", "PUT ipallocations"]);
  const [withdrawn, cooled] = cluster.api.writes;
  expect(withdrawn).toMatchObject({
    priority: "housekeeping",
    body: { preconditions: { uid: expect.any(String), resourceVersion: expect.any(String) } },
  });
  expect(cooled).toMatchObject({ priority: "housekeeping", body: { spec: { owner: OWNER } } });
  expect(cluster.state).toBe("Cooling");
});

test.each(["v1beta1", "v1alpha1"] as const)("objects that only %s serves are found", async (version) => {
  cluster = new SweptMachines(version);
  cluster.release();
  await cluster.sweepFor(40);
  expect(cluster.state).toBe("Cooling");
  expect(cluster.told).toBeUndefined();
});

test.each([
  ["before the IPAddress is deleted", "DELETE", "/ipaddresses/", "10.0.0.5"],
  ["after it was deleted", "PUT", "/ipallocations/", undefined],
] as const)("a release that a controller left %s is completed by another one", async (_when, method, part, left) => {
  onceBefore(method, part, () => {
    throw new ApiAway("the controller has ended");
  });
  await cluster.sweepFor(30);
  expect(cluster.state).toBe("Bound");
  expect(cluster.told).toBe(left);
  cluster.api.before = () => {};
  await cluster.sweepFor(10);
  expect(cluster.state).toBe("Cooling");
  expect(cluster.told).toBeUndefined();
});

test("an IPAddress that another controller creates for a cooling address is deleted", async () => {
  await cluster.sweepFor(40);
  cluster.tell("10.0.0.5");
  await cluster.sweepFor(40);
  expect(cluster.written).toEqual(["DELETE ipaddresses", "PUT ipallocations", "DELETE ipaddresses"]);
  expect([cluster.state, cluster.told]).toEqual(["Cooling", undefined]);
});

test("an IPAddress that a new claim of the name has taken over meanwhile stays, and so does the address", async () => {
  onceBefore("DELETE", "/ipaddresses/", () => {
    cluster.claim("c2");
    cluster.tell("10.0.0.5", { labels: { taken: "over" } });
  });
  await cluster.sweepFor(100);
  expect(cluster.written).toEqual([]);
  expect([cluster.state, cluster.told]).toEqual(["Bound", "10.0.0.5"]);
});

test("an IPAddress of the same address on another network stays when the address is released", async () => {
  const allocation = allocationName("red", ADDRESS.address);
  cluster.tell("10.0.0.5", { annotations: { "ipam.holdfast.dev/allocation": allocation } });
  await cluster.sweepFor(40);
  expect([cluster.state, cluster.told]).toEqual(["Cooling", "10.0.0.5"]);
});

test("a second address of a living claim is released only if the claim holds the one in its IPAddress", async () => {
  const other = parseInterfaceAddress("10.0.0.6/24");
  cluster.claim("c1");
  cluster.tell("10.0.0.6");
  await cluster.sweepFor(100);
  expect(cluster.state, "nobody has the told one").toBe("Bound");
  const boundTo = (owner: AllocationOwner) =>
    cluster.api.put(
      ALLOCATIONS_PATH,
      newAllocation("blue", other, { owner, attachment: null }, "2026-01-01T00:00:00Z"),
    );
  boundTo({ ...OWNER, uid: "c9", name: "m9" });
  await cluster.sweepFor(100);
  expect(cluster.state, "somebody else has the told one").toBe("Bound");
  boundTo(OWNER);
  await cluster.sweepFor(40);
  expect([cluster.state, cluster.told]).toEqual(["Cooling", "10.0.0.6"]);
});

test("an IPAddress that belongs to a new claim of the name stays, though the claim is not seen yet", async () => {
  cluster.tell("10.0.0.5", { ownerReferences: [claimReference("c2")] });
  let reads = 0;
  cluster.api.before = ({ method, path }) => {
    if (method !== "GET" || !path.includes("/ipaddressclaims/")) return;
    reads += 1;
    // The verdict rests on the first read.
    if (reads === 2) cluster.claim("c2");
  };
  await cluster.sweepFor(100);
  expect(reads).toBeGreaterThan(1);
  expect([cluster.state, cluster.told]).toEqual(["Bound", "10.0.0.5"]);
});

test("an IPAddress that came back from a move with a claim which is gone as well is deleted", async () => {
  cluster.tell("10.0.0.5", { ownerReferences: [claimReference("c2")] });
  await cluster.sweepFor(40);
  expect([cluster.state, cluster.told]).toEqual(["Cooling", undefined]);
});

function claimReference(uid: string): object {
  return { apiVersion: "ipam.cluster.x-k8s.io/v1beta2", kind: "IPAddressClaim", name: "m0", uid };
}

test("an allocation that a new claim of the name has taken over meanwhile is not released", async () => {
  onceBefore("PUT", "/ipallocations/", () => {
    cluster.claim("c2");
    const object = cluster.api.at(ALLOCATION);
    const spec = { ...object.spec, owner: { ...OWNER, uid: "c2" } };
    cluster.api.put(ALLOCATIONS_PATH, { ...object, spec });
  });
  await cluster.sweepFor(100);
  expect(cluster.state).toBe("Bound");
  expect(cluster.api.at(ALLOCATION).spec.owner.uid).toBe("c2");
});

test("a claim that the cache has not seen yet is found by the quorum read", async () => {
  await cluster.sweepFor(20);
  onceBefore("GET", "/ipaddressclaims/", () => cluster.claim("c1"));
  await cluster.sweepFor(0);
  expect([cluster.state, cluster.told]).toEqual(["Bound", "10.0.0.5"]);
  expect(cluster.written).toEqual([]);
});

test("a Cluster that was paused since the cache saw it keeps the address", async () => {
  onceBefore("GET", "/clusters/", () =>
    cluster.api.put(cluster.clusters, {
      metadata: { name: "prod", namespace: "shop", uid: "k1" },
      spec: { paused: true },
    }),
  );
  await cluster.sweepFor(100);
  expect([cluster.state, cluster.told]).toEqual(["Bound", "10.0.0.5"]);
});

test.each([
  ["claims", "/apis/ipam.cluster.x-k8s.io/"],
  ["Clusters", "/apis/cluster.x-k8s.io/"],
])("a kind that is not served does not count as a missing object: %s", async (_kind, path) => {
  cluster.api.missing.add(path);
  await cluster.sweepFor(100);
  expect(cluster.state).toBe("Bound");
  cluster.api.missing.clear();
  // The next request serves it again.
  await cluster.api.list({ path: NODES_PATH, each: () => {} });
  await cluster.sweepFor(40);
  expect(cluster.state).toBe("Cooling");
});

test("a Cluster whose pause only this controller has seen keeps the address, though nothing is recorded yet", async () => {
  cluster.api.remove(`${cluster.clusters}/prod`);
  cluster.namespace = { kind: "absent" };
  cluster.seenPaused.add("shop/prod");
  await cluster.sweepFor(100);
  expect(cluster.state).toBe("Bound");
});

test("an existing namespace keeps the address of a Cluster that is gone", async () => {
  cluster.api.remove(`${cluster.clusters}/prod`);
  cluster.namespace = { kind: "absent" };
  await cluster.sweepFor(100);
  expect(cluster.state, "the namespace shop is there").toBe("Bound");
  cluster.api.remove("/api/v1/namespaces/shop");
  await cluster.sweepFor(0);
  expect(cluster.state).toBe("Cooling");
});

test("an address that a pool keeps is freed with the pool's quorum read, and no IPAddress is touched", async () => {
  const uid = "pool:p1";
  const object = cluster.api.at(ALLOCATION);
  cluster.api.put(ALLOCATIONS_PATH, { ...object, spec: { ...object.spec, owner: { ...OWNER, uid } } });
  onceBefore("GET", "/addresspools", () =>
    cluster.api.put(namespacedPath(ADDRESS_POOLS_PATH, "shop"), {
      metadata: { name: "blue", namespace: "shop" },
      spec: { network: "blue", preallocations: { m0: "10.0.0.5" } },
    }),
  );
  await cluster.sweepFor(100);
  expect(cluster.state).toBe("Bound");
  cluster.api.remove(`${namespacedPath(ADDRESS_POOLS_PATH, "shop")}/blue`);
  await cluster.sweepFor(40);
  expect([cluster.state, cluster.told]).toEqual(["Cooling", "10.0.0.5"]);
});
