/** What is decided and written for a claim, without a cluster. */
import { describe, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { OwnerIndex } from "../../allocations/owner-index.ts";
import { toAllocationOwner } from "../../allocations/owners.ts";
import { addressObject, addressPatch } from "../../controller/capi/address-object.ts";
import { ClaimQueue } from "../../controller/capi/claim-queue.ts";
import { RefusedAddresses } from "../../controller/capi/refused-addresses.ts";
import { SentAddresses } from "../../controller/capi/sent-addresses.ts";
import type { Owner } from "../../ipam/owner.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { CollectionPaths } from "../../kube/collection-paths.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { machineStatusPatch } from "../../kube/views/machine-claim-status.ts";
import {
  type MachineAddressView,
  type MachineClaimView,
  projectMachineAddress,
  projectMachineClaim,
} from "../../kube/views/machine-claim-view.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const POOL_REF = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "lan" };
const NOW = "2026-02-02T00:00:00Z";
const BEFORE = "2026-01-01T00:00:00Z";

function metadata(name: string, more: object = {}) {
  return {
    name,
    namespace: "fleet",
    uid: `${name}-uid`,
    resourceVersion: "7",
    creationTimestamp: BEFORE,
    ...more,
  };
}

function claimWith(status: object, more: object = {}): MachineClaimView {
  return projectMachineClaim({ metadata: metadata("m0", more), spec: { poolRef: POOL_REF }, status });
}

const pool = projectAddressPool({ metadata: metadata("lan", { generation: 1 }), spec: { network: "blue" } });
const failed = { kind: "failed", reason: "PoolExhausted", message: "no free address" } as const;
const fulfilled = { kind: "fulfilled", addressRef: "m0" } as const;

describe("the status of a claim", () => {
  const theirs = {
    type: "Theirs",
    status: "False",
    severity: "Error",
    reason: "No",
    lastTransitionTime: BEFORE,
  };
  const present = { type: "Other", status: "True", reason: "Yes", message: "", lastTransitionTime: BEFORE };

  test("keeps other controllers' conditions in both forms", () => {
    const claim = claimWith({
      conditions: [theirs],
      v1beta2: { conditions: [{ ...present, observedGeneration: 3 }] },
    });
    expect(machineStatusPatch(claim, "v1beta1", failed, NOW)).toEqual({
      metadata: { resourceVersion: "7" },
      status: {
        conditions: [
          theirs,
          {
            ...{ type: "Ready", status: "False", severity: "Warning", reason: "PoolExhausted" },
            ...{ message: "no free address", lastTransitionTime: NOW },
          },
        ],
        v1beta2: {
          conditions: [
            { ...present, observedGeneration: 3 },
            {
              ...{ type: "Ready", status: "False", reason: "PoolExhausted", message: "no free address" },
              lastTransitionTime: NOW,
            },
          ],
        },
      },
    });
  });

  test("is not written when it says so already, and the time changes with the status only", () => {
    const ready = {
      type: "Ready",
      status: "False",
      reason: "PoolNotReady",
      message: "wait",
      lastTransitionTime: BEFORE,
    };
    const claim = claimWith({ conditions: [ready] });
    const same = { kind: "failed", reason: "PoolNotReady", message: "wait" } as const;
    expect(machineStatusPatch(claim, "v1beta2", same, NOW)).toBeNull();
    expect(machineStatusPatch(claim, "v1beta2", failed, NOW)).toMatchObject({
      status: { conditions: [{ reason: "PoolExhausted", lastTransitionTime: BEFORE }] },
    });
    expect(machineStatusPatch(claim, "v1beta2", fulfilled, NOW)).toEqual({
      metadata: { resourceVersion: "7" },
      status: {
        addressRef: { name: "m0" },
        conditions: [
          { type: "Ready", status: "True", reason: "AddressAllocated", message: "", lastTransitionTime: NOW },
        ],
      },
    });
  });

  test("never says more than the old form may hold", () => {
    const long = { ...failed, message: "x".repeat(20_000) };
    const patch = machineStatusPatch(claimWith({}), "v1alpha1", long, NOW) as {
      status: { conditions: { message: string }[] };
    };
    expect(patch.status.conditions[0]?.message).toHaveLength(10_240);
    expect(Object.keys(patch.status)).toEqual(["conditions"]);
  });
});

describe("the metadata of an IPAddress", () => {
  const reference = (kind: string, name: string, uid: string, more: object = {}) => {
    const group = kind === "AddressPool" ? "ipam.holdfast.dev/v1alpha1" : "ipam.cluster.x-k8s.io/v1beta2";
    return { apiVersion: group, kind, name, uid, blockOwnerDeletion: true, ...more };
  };
  const apiVersion = "ipam.cluster.x-k8s.io/v1beta2";
  const ofClaim = reference("IPAddressClaim", "m0", "m0-uid", { controller: true });
  const ofPool = reference("AddressPool", "lan", "lan-uid", { controller: false });
  const owners = { claim: claimWith({}), apiVersion, pool };
  const known = (ownerReferences: object[], annotations: object = { "ipam.holdfast.dev/allocation": "a" }) =>
    projectMachineAddress({
      metadata: metadata("m0", { ownerReferences, annotations }),
      spec: { claimRef: { name: "m0" }, poolRef: POOL_REF, address: "10.0.0.5", prefix: 24 },
    });

  test("is not written if it is right, whichever version names the claim", () => {
    expect(addressPatch(known([ofClaim, ofPool]), owners, "a")).toBeNull();
    const older = { ...ofClaim, apiVersion: "ipam.cluster.x-k8s.io/v1beta1" };
    expect(addressPatch(known([older, ofPool]), owners, "a")).toBeNull();
    expect(addressPatch(known([ofClaim]), { ...owners, pool: null }, "a")).toBeNull();
  });

  test("names its claim in the version of claims, and has its own", () => {
    const told = {
      ...{ apiVersion: "ipam.cluster.x-k8s.io/v1beta1", allocation: "a" },
      ...{ address: "10.0.0.5", prefix: 24, gateway: null },
    };
    expect(addressObject(owners, told)).toMatchObject({
      apiVersion: "ipam.cluster.x-k8s.io/v1beta1",
      metadata: { ownerReferences: [{ apiVersion: "ipam.cluster.x-k8s.io/v1beta2" }, {}] },
    });
  });

  test("loses former objects of the names and keeps strangers", () => {
    const stranger = { apiVersion: "v1", kind: "ConfigMap", name: "x", uid: "x-uid" };
    const patch = addressPatch(known([{ ...ofClaim, uid: "old" }, stranger, { ...ofPool, uid: "old" }]), owners, "a");
    expect(patch).toEqual({
      metadata: { resourceVersion: "7", ownerReferences: [stranger, ofClaim, ofPool] },
    });
  });

  test("names no second controller, which the server would refuse", () => {
    const stranger = { apiVersion: "v1", kind: "ConfigMap", name: "x", uid: "x-uid", controller: true };
    expect(addressPatch(known([stranger]), owners, "b")).toEqual({
      metadata: {
        resourceVersion: "7",
        ownerReferences: [stranger, { ...ofClaim, controller: false }, ofPool],
        annotations: { "ipam.holdfast.dev/allocation": "b" },
      },
    });
  });
});

describe("an IPAddress that was written and that the watch has not shown yet", () => {
  function told() {
    const clock = new ManualClock();
    const items = new Map<string, MachineAddressView>();
    const cache = { items, known: true, missing: false, path: "", onChange() {} };
    return { clock, items, told: new SentAddresses(cache, clock) };
  }
  const version = (resourceVersion: string) =>
    projectMachineAddress({
      metadata: metadata("m0", { resourceVersion }),
      spec: { claimRef: { name: "m0" }, poolRef: POOL_REF, address: "10.0.0.5", prefix: 24 },
    });
  const key = "fleet/m0";

  test("counts until it is followed, and an older version does not end that", () => {
    const { items, told: known } = told();
    known.learned(version("10"));
    items.set(key, version("9"));
    known.followed(version("9"));
    expect(known.get(key)?.resourceVersion).toBe("10");
    items.set(key, version("11"));
    known.followed(version("11"));
    expect(known.get(key)?.resourceVersion).toBe("11");
  });

  test("does not count where the followed copy came before the answer", () => {
    const { items, told: known } = told();
    for (const followed of ["10", "11"]) items.set(key, version(followed));
    known.learned(version("10"));
    expect(known.get(key)?.resourceVersion).toBe("11");
  });

  test("is looked at again when it was gone before the answer", () => {
    const { clock, told: known } = told();
    known.gone(version("10"));
    known.learned(version("10"));
    clock.nowMs += 9_999;
    expect([known.takeLate(), known.get(key)?.resourceVersion]).toEqual([[], "10"]);
    clock.nowMs += 1;
    expect([known.takeLate(), known.get(key), known.takeLate()]).toEqual([[key], undefined, []]);
  });
});

test("the version of what is known is that of the last list, whatever is tried meanwhile", () => {
  const paths = new CollectionPaths("/new", ["/old"]);
  expect([paths.notServed(), paths.current, paths.lastServed]).toEqual([true, "/old", "/new"]);
  paths.served();
  expect(paths.lastServed).toBe("/old");
  expect([paths.notServed(), paths.current, paths.lastServed]).toEqual([true, "/new", "/old"]);
  paths.served();
  expect(paths.lastServed).toBe("/new");
});

test("claims are taken in the order of their creation, and of their arrival within one second", () => {
  const queue = new ClaimQueue();
  const claims = new Map<string, MachineClaimView>();
  for (const [name, time] of [
    ["young", "2026-01-01T00:00:05Z"],
    ["b", BEFORE],
    ["a", BEFORE],
  ] as const) {
    const claim = projectMachineClaim({
      metadata: metadata(name, { creationTimestamp: time }),
      spec: { poolRef: POOL_REF },
    });
    claims.set(claim.key, claim);
    queue.arrived(claim);
    queue.add(claim.key);
    queue.add(claim.key);
  }
  queue.add("fleet/gone");
  expect(queue.take(claims).map(({ name }) => name)).toEqual(["b", "a", "young"]);
  expect(queue.take(claims)).toEqual([]);
});

describe("an IPAddress that the server refuses", () => {
  function refusals() {
    const clock = new ManualClock();
    const released: string[] = [];
    const refused = new RefusedAddresses(clock, {
      release: async ({ name }: Owner) => {
        released.push(name);
        return { kind: "released", addresses: [] };
      },
    });
    return { clock, released, refused };
  }

  test("keeps its allocation for ten minutes, is then released, and is not retried for as long", async () => {
    const { clock, released, refused } = refusals();
    const claim = claimWith({});
    await refused.note(claim, pool, "no");
    clock.nowMs += 599_000;
    await refused.note(claim, pool, "no");
    expect([released, refused.whyWaiting(claim, pool)]).toEqual([[], null]);
    clock.nowMs += 1_000;
    await refused.note(claim, pool, "no");
    expect(released).toEqual(["m0"]);
    expect(refused.whyWaiting(claim, pool)).toEqual({ reason: "AllocationFailed", message: "no" });
    expect(refused.whyWaiting(claim, { ...pool, generation: 2 })).toBeNull();
    clock.nowMs += 600_000;
    expect(refused.whyWaiting(claim, pool)).toBeNull();
    await refused.note(claim, pool, "no");
    expect(released).toEqual(["m0"]);
  });

  test("restarts the count after one that was accepted", async () => {
    const { clock, released, refused } = refusals();
    const claim = claimWith({});
    await refused.note(claim, pool, "no");
    refused.clear(claim);
    clock.nowMs += 601_000;
    await refused.note(claim, pool, "no");
    expect(released).toEqual([]);
  });
});

test("the index finds what an owner has and what it takes over, and nothing that it has no more", () => {
  const index = new OwnerIndex();
  const owner = (name: string, uid: string): Owner => ({
    ...{ kind: "addressClaim", uid, interface: "", namespace: "fleet", name },
  });
  const allocation = (address: string, of: Owner): IPAllocation => {
    const one = parseInterfaceAddress(address);
    const holder = { owner: toAllocationOwner(of), attachment: null };
    return newAllocation("blue", one, holder, NOW) as IPAllocation;
  };
  const first = allocation("10.0.0.5/24", owner("m0", "old"));
  const second = allocation("10.0.0.6/24", owner("m0", "new"));
  index.put(first);
  index.put(second);
  index.put(allocation("10.0.0.7/24", { ...owner("m0", "new"), namespace: "other" }));
  expect(index.of(owner("m0", "new"))).toEqual([first, second]);
  index.put(allocation("10.0.0.5/24", owner("m1", "u1")));
  expect(index.of(owner("m0", "new"))).toEqual([second]);
  index.remove(second.metadata.name);
  expect(index.of(owner("m0", "new"))).toEqual([]);
  const pod: Owner = { kind: "pod", uid: "p1", interface: "net1", namespace: "shop", name: "web" };
  index.put(allocation("10.0.0.8/24", pod));
  expect(index.of(pod), "only machines are asked for").toEqual([]);
});
