import pino from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { Controller } from "../../controller/controller.ts";
import { loadControllerSettings } from "../../controller/settings.ts";
import { preallocationUid } from "../../ipam/owner.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeRequest } from "../../kube/kube-api.ts";
import {
  ADDRESS_POOLS_PATH,
  ALLOCATIONS_PATH,
  type AllocationOwner,
  CLAIMS_PATH,
  NADS_PATH,
  NETWORKS_PATH,
  namespacedPath,
} from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { capiDefinitions, machineDefinitions } from "../harness/machines/definitions.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import { configOf, NAMESPACE, nameOf } from "../harness/world/network.ts";

const IPAM = "/apis/ipam.cluster.x-k8s.io/v1beta2";
const POOLS = namespacedPath(ADDRESS_POOLS_PATH, NAMESPACE);
const TIME = "2026-01-01T00:00:00.000Z";
/** Many passes of the controller. */
const LONG_MS = 60_000;

let time: VirtualTime;
let api: KubeInMemory;
let controller: Controller;

beforeEach(async () => {
  time = new VirtualTime();
  api = new KubeInMemory(time.clock());
  api.define([...capiDefinitions("v1beta2"), ...machineDefinitions("metal3-pools")]);
  const settings = loadControllerSettings(
    {
      kubeconfig: "handed over",
      metricsAddress: "127.0.0.1:0",
      sweepIntervalSeconds: 1,
      sweepGraceSeconds: 1,
      coolingKeepSeconds: 10,
      logLevel: "silent",
    },
    {},
  );
  const log = pino({ level: process.env.HOLDFAST_TEST_LOG ?? "silent" });
  const open = Object.assign(api, { close: () => {} });
  controller = new Controller(settings, log, api.clock, () => open);
  await controller.start();
});
afterEach(async () => {
  await time.run(controller.stop());
});

async function send(request: Pick<KubeRequest, "method" | "path" | "patch" | "body">): Promise<KubeObject> {
  const deadlineMs = api.clock.monotonicMs() + 10_000;
  const { status, body } = await time.run(api.send({ ...request, priority: "housekeeping", deadlineMs }));
  if (status >= 300) throw new Error(`${request.method} ${request.path}: ${status} ${JSON.stringify(body)}`);
  return body as KubeObject;
}

function createPool(name: string, spec: object): Promise<KubeObject> {
  const metadata = { name, namespace: NAMESPACE };
  const body = { apiVersion: "ipam.holdfast.dev/v1alpha1", kind: "AddressPool", metadata, spec };
  return send({ method: "POST", path: POOLS, body });
}

function editPool(name: string, body: object): Promise<KubeObject> {
  return send({ method: "PATCH", patch: "merge", path: `${POOLS}/${name}`, body });
}

/** A NAD, whose network is imported. */
async function network(name: string, ipam: object): Promise<void> {
  api.put(namespacedPath(NADS_PATH, NAMESPACE), {
    metadata: { name },
    spec: { config: configOf(name, ipam) },
  });
  await becomes(() => api.at(`${NETWORKS_PATH}/${name}`)?.status?.conditions?.[0]?.status, "True");
}

function allocate(network: string, address: string, owner: AllocationOwner, state = "Bound"): void {
  const object = newAllocation(network, parseInterfaceAddress(address), { owner, attachment: null }, TIME);
  api.put(ALLOCATIONS_PATH, { ...object, status: { ...object.status, state } } as KubeObject);
}

/** A claim that has an address, as a VM's. */
function vmClaim(name: string, network: string, address: string): void {
  const spec = { network, interface: "" };
  api.put(namespacedPath(CLAIMS_PATH, NAMESPACE), { metadata: { name }, spec, status: { ips: [address] } });
}

function state(network: string, address: string): string | undefined {
  return api.at(`${ALLOCATIONS_PATH}/${nameOf(network, address)}`)?.status.state;
}

function ownerOf(network: string, address: string): KubeObject {
  return api.at(`${ALLOCATIONS_PATH}/${nameOf(network, address)}`)?.spec.owner;
}

/** Lets time pass until it is so. */
async function becomes(read: () => unknown, expected: unknown): Promise<void> {
  for (let passedMs = 0; passedMs < LONG_MS; passedMs += 500) {
    try {
      expect(read()).toEqual(expected);
      return;
    } catch {
      await time.pass(500);
    }
  }
  expect(read()).toEqual(expected);
}

function status(name: string): KubeObject {
  return api.at(`${POOLS}/${name}`)?.status ?? {};
}

function condition(name: string, type: string): KubeObject | undefined {
  return status(name).conditions?.find((one: KubeObject) => one.type === type);
}

const counts = (name: string) => {
  const { size, allocated, cooling, free, outOfRange } = status(name);
  return { size, allocated, cooling, free, outOfRange };
};

async function untilReason(name: string, reason: string): Promise<KubeObject> {
  await becomes(() => condition(name, "Ready")?.reason, reason);
  return condition(name, "Ready") as KubeObject;
}

/** The writes of a resource while so much time passes. */
async function writesWithin(ms: number, path: string): Promise<string[]> {
  const before = api.writes.length;
  await time.pass(ms);
  return api.writes.slice(before).flatMap((one) => (one.path.startsWith(path) ? [one.path] : []));
}

/** A machine that got its address from a pool without a claim. */
function machine(pool: string, name: string): AllocationOwner {
  return { kind: "Metal3Data", namespace: NAMESPACE, name, uid: `uid-${name}`, interface: pool };
}

describe("the status of a pool", () => {
  const BLUE = {
    subnets: "10.61.0.0/24",
    gateway: "10.61.0.1",
    reservedSubnets: "10.61.0.64/26",
    cooldownSeconds: 600,
  };

  test("counts its addresses, whoever holds them, and is not written again while nothing changes", async () => {
    await network("blue", BLUE);
    allocate("blue", "10.61.0.70/24", machine("other", "m0"));
    allocate("blue", "10.61.0.20/24", machine("workers", "m1"));
    await createPool("workers", { network: "blue", ranges: ["10.61.0.64/26", "10.61.0.10-10.61.0.13"] });
    const ready = await untilReason("workers", "Serving");
    expect(ready).toMatchObject({
      status: "True",
      message: "machine claims get addresses of network blue",
      observedGeneration: 1,
    });
    expect(status("workers")).toMatchObject({
      ...{ size: "68", allocated: "1", cooling: "0", free: "67", outOfRange: "1" },
      observedGeneration: 1,
    });
    expect(await writesWithin(LONG_MS, POOLS)).toEqual([]);
  });

  test("follows the ledger and the pool's ranges; the time of a condition is that of its status", async () => {
    await network("blue", BLUE);
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    const { lastTransitionTime } = condition("workers", "Ready") as KubeObject;
    vmClaim("cooling", "blue", "10.61.0.12/24");
    await becomes(() => counts("workers"), {
      size: "189",
      allocated: "1",
      cooling: "0",
      free: "188",
      outOfRange: "0",
    });
    api.remove(`${namespacedPath(CLAIMS_PATH, NAMESPACE)}/cooling`);
    await becomes(() => counts("workers"), {
      size: "189",
      allocated: "0",
      cooling: "1",
      free: "188",
      outOfRange: "0",
    });
    allocate("blue", "10.61.0.30/24", machine("workers", "m1"));
    await editPool("workers", { spec: { ranges: ["10.61.0.10-10.61.0.20"] } });
    await becomes(() => counts("workers"), {
      size: "11",
      allocated: "0",
      cooling: "1",
      free: "10",
      outOfRange: "1",
    });
    expect(condition("workers", "Ready")).toMatchObject({ lastTransitionTime, observedGeneration: 2 });
    await editPool("workers", { spec: { ranges: ["10.99.0.0/24"] } });
    const refused = await untilReason("workers", "RangeOutsideNetwork");
    expect(refused.lastTransitionTime > lastTransitionTime).toBe(true);
    expect(counts("workers"), "it has no addresses that could be counted").toEqual({});
  });

  test("is written at most every three seconds, however fast addresses come and go", async () => {
    await network("blue", BLUE);
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    const before = api.writes.length;
    for (let i = 10; i < 60; i++) {
      allocate("blue", `10.61.0.${i}/24`, machine("workers", `m${i}`));
      await time.pass(600);
    }
    const written = api.writes.slice(before).filter(({ path }) => path.startsWith(POOLS)).length;
    expect(written).toBeGreaterThan(5);
    expect(written).toBeLessThanOrEqual(11);
    await becomes(() => counts("workers").allocated, "50");
  });

  test("keeps the conditions of others", async () => {
    await network("blue", BLUE);
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    const theirs = { type: "Audited", status: "True", reason: "Yes", message: "", lastTransitionTime: TIME };
    const object = api.at(`${POOLS}/workers`);
    const conditions = [theirs, ...object.status.conditions];
    api.put(POOLS, { ...object, status: { ...object.status, conditions } });
    await editPool("workers", { spec: { ranges: ["10.99.0.0/24"] } });
    await untilReason("workers", "RangeOutsideNetwork");
    expect(condition("workers", "Audited")).toEqual(theirs);
    expect(await writesWithin(LONG_MS, POOLS)).toEqual([]);
  });

  test("is written although that of another pool always fails, which is retried with growing pauses", async () => {
    await network("blue", BLUE);
    let tries = 0;
    api.before = ({ path }) => {
      if (!path.startsWith(`${POOLS}/aaa`)) return;
      tries += 1;
      throw new ApiAway("500 Internal error occurred");
    };
    await createPool("aaa", { network: "blue" });
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    expect(tries).toBeGreaterThan(0);
    await time.pass(600_000);
    expect(tries, "tries in ten minutes").toBeLessThan(20);
    api.before = () => {};
    await time.pass(120_000);
    expect(condition("aaa", "Ready")?.reason).toBe("Serving");
  });

  test("is not written again and again where a part of it is dropped", async () => {
    await network("blue", BLUE);
    const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const old = api.at(`${crd}/addresspools.ipam.holdfast.dev`);
    delete old.spec.versions[0].schema.openAPIV3Schema.properties.status.properties.outOfRange;
    api.put(crd, old);
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    expect(status("workers").outOfRange).toBeUndefined();
    expect((await writesWithin(LONG_MS, POOLS)).length).toBeLessThanOrEqual(1);
  });

  test("lists IPAddresses that keep a former gateway or prefix length", async () => {
    await network("blue", BLUE);
    await createPool("workers", { network: "blue" });
    const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "workers" };
    const put = (name: string, spec: object) =>
      api.put(`${IPAM}/namespaces/${NAMESPACE}/ipaddresses`, {
        metadata: { name },
        spec: { poolRef, claimRef: { name }, prefix: 24, gateway: "10.61.0.1", ...spec },
      });
    const told = () => condition("workers", "AddressesCurrent")?.message;
    const text = (names: string) =>
      `IPAddresses with another prefix length or gateway than new ones get: ${names}; they keep theirs, because Cluster API lets no IPAddress change`;
    put("a", { address: "10.61.0.15" });
    put("b", { address: "10.61.0.16", gateway: "10.61.0.2" });
    put("c", { address: "10.61.0.17", prefix: 25 });
    put("elsewhere", { address: "10.99.0.16", gateway: "10.99.0.2" });
    put("foreign", { address: "10.61.0.18", prefix: 25, poolRef: { ...poolRef, kind: "InClusterIPPool" } });
    await becomes(told, text("shop/b, shop/c"));
    await editPool("workers", { spec: { gateway: "10.61.0.2" } });
    await becomes(told, text("shop/a, shop/c"));
    for (const name of ["a", "c"]) api.remove(`${IPAM}/namespaces/${NAMESPACE}/ipaddresses/${name}`);
    await becomes(told, undefined);
    expect(condition("workers", "Ready")?.reason).toBe("Serving");
  });

  test("says why nothing is given, and that it is given again", async () => {
    await network("blue", BLUE);
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    const annotate = (value: string | null) =>
      editPool("workers", { metadata: { annotations: { "cluster.x-k8s.io/paused": value } } });
    await annotate("");
    await untilReason("workers", "Paused");
    await annotate(null);
    await untilReason("workers", "Serving");
    const recovering = (isSo: string) => {
      const object = api.at(`${NETWORKS_PATH}/blue`);
      const mark = { type: "Recovering", status: isSo, reason: "Test", message: "node-a restores" };
      const conditions = [...object.status.conditions.slice(0, 1), { ...mark, lastTransitionTime: TIME }];
      api.put(NETWORKS_PATH, { ...object, status: { ...object.status, conditions } });
    };
    recovering("True");
    expect((await untilReason("workers", "Recovering")).message).toContain("node-a restores");
    recovering("False");
    await untilReason("workers", "Serving");
    api.remove(`${namespacedPath(NADS_PATH, NAMESPACE)}/blue`);
    expect((await untilReason("workers", "NetworkNotFound")).message).toContain("it belongs to namespace shop");
    const broken = { config: configOf("blue", { subnets: "10.0.0.0/9999" }) };
    api.put(namespacedPath(NADS_PATH, NAMESPACE), { metadata: { name: "blue" }, spec: broken });
    expect((await untilReason("workers", "DefinitionInvalid")).message).toContain("shop/blue");
    api.remove(`${namespacedPath(NADS_PATH, NAMESPACE)}/blue`);
    await untilReason("workers", "NetworkNotFound");
    await time.pass(LONG_MS);
    expect(api.at(`${NETWORKS_PATH}/blue`), "a pool names the network").toBeDefined();
    api.remove(`${POOLS}/workers`);
    await becomes(() => api.at(`${NETWORKS_PATH}/blue`), undefined);
  });

  test("says that its name is taken by a pool of Metal3's, also one that comes later", async () => {
    await network("blue", BLUE);
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    const pools = `/apis/ipam.metal3.io/v1alpha1/namespaces/${NAMESPACE}/ippools`;
    api.put(pools, { metadata: { name: "workers" } });
    await untilReason("workers", "NameTaken");
    api.remove(`${pools}/workers`);
    await untilReason("workers", "Serving");
  });

  test("counts what is left behind when the network's subnets are edited", async () => {
    await network("blue", BLUE);
    allocate("blue", "10.61.0.200/24", machine("workers", "m1"));
    await createPool("workers", { network: "blue" });
    await becomes(() => counts("workers").allocated, "1");
    const nads = namespacedPath(NADS_PATH, NAMESPACE);
    const config = configOf("blue", { subnets: "10.61.0.0/25" });
    api.put(nads, { metadata: { name: "blue", generation: 2 }, spec: { config } });
    const left = { size: "126", allocated: "0", cooling: "0", free: "126", outOfRange: "1" };
    await becomes(() => counts("workers"), left);
    expect((await untilReason("workers", "Serving")).observedGeneration).toBe(1);
  });

  test("is what several pools of a network have in common", async () => {
    await network("blue", BLUE);
    await createPool("a", { network: "blue", ranges: ["10.61.0.64/27"] });
    await createPool("b", { network: "blue", ranges: ["10.61.0.80/28", "10.61.0.200"] });
    allocate("blue", "10.61.0.81/24", machine("a", "m1"));
    allocate("blue", "10.61.0.70/24", machine("b", "m2"));
    await becomes(() => counts("a"), {
      size: "32",
      allocated: "2",
      cooling: "0",
      free: "30",
      outOfRange: "0",
    });
    await becomes(() => counts("b"), {
      size: "17",
      allocated: "1",
      cooling: "0",
      free: "16",
      outOfRange: "1",
    });
  });

  test("refuses another network while its machines have addresses of the former one", async () => {
    await network("blue", BLUE);
    await network("green", { subnets: "10.62.0.0/24" });
    allocate("blue", "10.61.0.20/24", machine("workers", "m1"));
    await createPool("workers", { network: "blue" });
    await untilReason("workers", "Serving");
    await editPool("workers", { spec: { network: "green" } });
    const { message } = await untilReason("workers", "NetworkChanged");
    expect(message).toBe(
      'spec.network is "green": claims of this pool hold addresses of network blue (1 in all); set it back to "blue", or delete those claims first',
    );
    const path = `${ALLOCATIONS_PATH}/${nameOf("blue", "10.61.0.20/24")}`;
    // Released: the controller would put back what is deleted while it is in use.
    api.put(ALLOCATIONS_PATH, {
      ...api.at(path),
      status: { state: "Cooling", since: "2026-01-01T00:00:00Z" },
    });
    api.remove(path);
    await untilReason("workers", "Serving");
  });

  test("reports a definition that differs from the one in force", async () => {
    await network("green", { subnets: "10.62.0.0/24" });
    await createPool("workers", { network: "green", definition: { subnets: ["10.62.0.0/25"] } });
    expect((await untilReason("workers", "DefinitionConflict")).message).toContain(
      "NetworkAttachmentDefinition shop/green",
    );
    await editPool("workers", {
      spec: { definition: { allowPersistentIPs: true, subnets: ["10.62.0.0/24"] } },
    });
    await untilReason("workers", "Serving");
    await createPool("others", { network: "green", definition: { subnets: ["10.62.0.0/24"] } });
    await untilReason("others", "DefinitionConflict");
    api.remove(`${namespacedPath(NADS_PATH, NAMESPACE)}/green`);
    await becomes(() => api.at(`${NETWORKS_PATH}/green`)?.status.definedBy, "AddressPool shop/workers");
    await untilReason("workers", "Serving");
    await becomes(() => condition("others", "Ready")?.message.includes("AddressPool shop/workers"), true);
    await editPool("workers", { spec: { definition: { subnets: ["10.62.0.0/33"] } } });
    await untilReason("others", "Serving");
    expect((await untilReason("workers", "DefinitionConflict")).message).toContain("spec.definition.subnets[0]");
  });

  test("gives nothing before the addresses of existing IPAddresses are recorded", async () => {
    const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "workers" };
    const namespaced = `${IPAM}/namespaces/${NAMESPACE}`;
    const paused = { "cluster.x-k8s.io/paused": "" };
    api.put(`${namespaced}/ipaddressclaims`, {
      metadata: { name: "a", annotations: paused },
      spec: { poolRef },
    });
    const spec = {
      poolRef,
      claimRef: { name: "a" },
      address: "10.61.0.15",
      prefix: 24,
      gateway: "10.61.0.1",
    };
    api.put(`${namespaced}/ipaddresses`, { metadata: { name: "a" }, spec });
    await network("blue", BLUE);
    let sawWaiting = false;
    api.before = ({ path, body }) => {
      if (path.startsWith(POOLS)) sawWaiting ||= JSON.stringify(body).includes("IPAddress shop/a has 10.61.0.15");
    };
    // Until the pass that the network began has rested: the address may be recorded before the pool says anything.
    await time.pass(5_000);
    await createPool("workers", { network: "blue" });
    await time.pass(10_000);
    if (state("blue", "10.61.0.15/24") === undefined) {
      const uid = api.at(`${namespaced}/ipaddressclaims/a`).metadata.uid;
      allocate("blue", "10.61.0.15/24", {
        kind: "IPAddressClaim",
        namespace: NAMESPACE,
        name: "a",
        uid,
        interface: "",
      });
    }
    await untilReason("workers", "Serving");
    expect(sawWaiting).toBe(true);
    // Outside of the network it is nobody's concern, until the network grows.
    sawWaiting = false;
    api.put(`${namespaced}/ipaddressclaims`, { metadata: { name: "b" }, spec: { poolRef } });
    const outside = { ...spec, claimRef: { name: "b" }, address: "10.61.1.15" };
    api.put(`${namespaced}/ipaddresses`, { metadata: { name: "b" }, spec: outside });
    await time.pass(10_000);
    expect(sawWaiting).toBe(false);
  });
});

describe("an address that is in use without an allocation", () => {
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "workers" };
  const machines = `${IPAM}/namespaces/${NAMESPACE}`;
  const claim = (name: string) => api.put(`${machines}/ipaddressclaims`, { metadata: { name }, spec: { poolRef } });
  const told = (name: string) => api.at(`${machines}/ipaddresses/${name}`)?.spec.address;
  const readyOf = (name: string) => api.at(`${machines}/ipaddressclaims/${name}`)?.status?.conditions?.[0]?.reason;

  test("is not given while an IPAddress names it, and delays no claim", async () => {
    await network("blue", { subnets: "10.61.0.0/24" });
    const spec = { poolRef, claimRef: { name: "a" }, address: "10.61.0.77", prefix: 24 };
    api.put(`${machines}/ipaddresses`, { metadata: { name: "other" }, spec });
    claim("a");
    await createPool("workers", { network: "blue", ranges: ["10.61.0.77-10.61.0.78"] });
    await untilReason("workers", "Serving");
    await becomes(() => told("a"), "10.61.0.78");
    claim("b");
    await becomes(() => readyOf("b"), "PoolExhausted");
    api.remove(`${machines}/ipaddresses/other`);
    await becomes(() => told("b"), "10.61.0.77");
  });

  test("is not given if another pool of the network has it as gateway", async () => {
    await network("blue", { subnets: "10.61.0.0/24" });
    await createPool("others", { network: "blue", ranges: ["10.61.0.200/29"], gateway: "10.61.0.2" });
    await untilReason("others", "Serving");
    const ranges = ["10.61.0.2-10.61.0.4"];
    await createPool("workers", { network: "blue", ranges, preallocations: { own: "10.61.0.4" } });
    claim("a");
    await becomes(() => told("a"), "10.61.0.3");
    claim("b");
    await becomes(() => readyOf("b"), "PoolExhausted");
    await becomes(() => [counts("workers").size, counts("workers").free], ["2", "0"]);
    await editPool("others", { spec: { gateway: "10.61.0.4" } });
    await becomes(() => told("b"), "10.61.0.2");
    expect(condition("workers", "Ready")?.reason, "a preallocation prevails").toBe("Serving");
  });
});

test("a claim that is created right after its pool gets no condition about a pool being checked", async () => {
  await network("blue", { subnets: "10.61.0.0/24" });
  const before = api.writes.length;
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "workers" };
  await createPool("workers", { network: "blue" });
  api.put(`${IPAM}/namespaces/${NAMESPACE}/ipaddressclaims`, { metadata: { name: "a" }, spec: { poolRef } });
  await becomes(() => api.at(`${IPAM}/namespaces/${NAMESPACE}/ipaddresses/a`)?.spec.prefix, 24);
  await time.pass(LONG_MS);
  const told = api.writes.slice(before).filter(({ path }) => path.includes("/ipaddressclaims/"));
  expect(told.map(({ body }) => JSON.stringify(body).includes("AddressAllocated"))).toEqual([true]);
});

describe("a preallocated address", () => {
  const RED = { subnets: "10.63.0.0/24", cooldownSeconds: 600 };
  const pool = (preallocations: object) => ({ network: "red", ranges: ["10.63.0.8/29"], preallocations });
  const kept = (address: string) => ownerOf("red", `${address}/24`)?.name;

  test("is kept for its claim, shown as allocated, and written once", async () => {
    await network("red", RED);
    const { metadata } = await createPool("static", pool({ "web-0": "10.63.0.10", "web-1": "10.63.0.11" }));
    await becomes(() => counts("static"), {
      size: "8",
      allocated: "2",
      cooling: "0",
      free: "6",
      outOfRange: "0",
    });
    expect(ownerOf("red", "10.63.0.10/24")).toEqual({
      ...{ kind: "IPAddressClaim", namespace: NAMESPACE, name: "web-0", interface: "" },
      uid: preallocationUid(metadata.uid),
    });
    expect(await writesWithin(LONG_MS, ALLOCATIONS_PATH)).toEqual([]);
  });

  test("that another owner holds is reported with its holder, and reserved once it is free", async () => {
    await network("red", RED);
    vmClaim("early", "red", "10.63.0.12/24");
    await becomes(() => kept("10.63.0.12"), "early");
    await createPool("static", pool({ "web-2": "10.63.0.12", "web-3": "10.63.0.13" }));
    const told = () => condition("static", "PreallocationsKept")?.message;
    await becomes(told, "10.63.0.12, preallocated to claim web-2, is held by claim shop/early");
    expect(kept("10.63.0.13"), "others are kept").toBe("web-3");
    await untilReason("static", "Serving");
    api.remove(`${namespacedPath(CLAIMS_PATH, NAMESPACE)}/early`);
    await becomes(told, undefined);
    expect([kept("10.63.0.12"), state("red", "10.63.0.12/24")]).toEqual(["web-2", "Bound"]);
  });

  test("is kept within two seconds of its release", async () => {
    await network("red", { ...RED, cooldownSeconds: 0 });
    vmClaim("early", "red", "10.63.0.12/24");
    await becomes(() => kept("10.63.0.12"), "early");
    await createPool("static", pool({ "web-2": "10.63.0.12" }));
    await becomes(() => condition("static", "PreallocationsKept")?.status, "False");
    const name = nameOf("red", "10.63.0.12/24");
    // While its claim lists the address, adoption would bind it again.
    api.remove(`${namespacedPath(CLAIMS_PATH, NAMESPACE)}/early`);
    api.put(ALLOCATIONS_PATH, {
      ...api.at(`${ALLOCATIONS_PATH}/${name}`),
      status: { state: "Cooling", since: TIME },
    });
    await time.pass(2_000);
    expect(kept("10.63.0.12")).toBe("web-2");
  });

  test("is not kept where it cannot be known what else is there", async () => {
    await network("red", RED);
    const object = api.at(`${NETWORKS_PATH}/red`);
    const mark = {
      type: "Recovering",
      status: "True",
      reason: "Test",
      message: "lost",
      lastTransitionTime: TIME,
    };
    const conditions = [...object.status.conditions, mark];
    api.put(NETWORKS_PATH, { ...object, status: { ...object.status, conditions } });
    await createPool("static", pool({ "web-2": "10.63.0.12" }));
    await untilReason("static", "Recovering");
    await time.pass(LONG_MS);
    expect(state("red", "10.63.0.12/24")).toBeUndefined();
  });

  test("that its claim has already is left alone, and kept again in place of its cool-down", async () => {
    await network("red", RED);
    const uid = "gone";
    const owner = {
      kind: "IPAddressClaim",
      namespace: NAMESPACE,
      name: "web-0",
      uid,
      interface: "",
    } as const;
    allocate("red", "10.63.0.10/24", owner);
    const { metadata } = await createPool("static", pool({ "web-0": "10.63.0.10" }));
    await untilReason("static", "Serving");
    await becomes(() => ownerOf("red", "10.63.0.10/24").uid, preallocationUid(metadata.uid));
    expect(state("red", "10.63.0.10/24")).toBe("Bound");
    expect(api.writes.filter(({ method, path }) => method === "POST" && path === ALLOCATIONS_PATH)).toEqual([]);
  });

  test("passes to its claim, is kept again when that is gone, and passes to the next of its name", async () => {
    await network("red", RED);
    const { metadata } = await createPool("static", pool({ "web-0": "10.63.0.10" }));
    await becomes(() => ownerOf("red", "10.63.0.10/24")?.uid, preallocationUid(metadata.uid));
    const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "static" };
    const claims = `${IPAM}/namespaces/${NAMESPACE}/ipaddressclaims`;
    const told = () => api.at(`${IPAM}/namespaces/${NAMESPACE}/ipaddresses/web-0`)?.spec.address;
    for (let round = 0; round < 2; round++) {
      const claim = api.put(claims, { metadata: { name: "web-0" }, spec: { poolRef } });
      await becomes(told, "10.63.0.10");
      expect(ownerOf("red", "10.63.0.10/24").uid).toBe(claim.metadata.uid);
      await becomes(() => [counts("static").allocated, counts("static").outOfRange], ["1", "0"]);
      api.remove(`${claims}/web-0`);
      await becomes(told, undefined);
      await becomes(() => ownerOf("red", "10.63.0.10/24").uid, preallocationUid(metadata.uid));
      expect(state("red", "10.63.0.10/24")).toBe("Bound");
    }
    expect(condition("static", "PreallocationsKept")).toBeUndefined();
  });

  test("that the pool no longer lists is given back", async () => {
    await network("red", RED);
    await createPool("static", pool({ "web-2": "10.63.0.12" }));
    await becomes(() => state("red", "10.63.0.12/24"), "Bound");
    await editPool("static", { spec: { preallocations: { "web-2": null } } });
    await becomes(() => state("red", "10.63.0.12/24"), "Cooling");
    await becomes(() => counts("static").cooling, "1");
  });

  test("that is wrong makes the pool give nothing, and what is kept stays", async () => {
    await network("red", RED);
    await createPool("static", pool({ "web-3": "10.63.0.13" }));
    await becomes(() => kept("10.63.0.13"), "web-3");
    await editPool("static", { spec: { preallocations: { "web-4": "10.63.0.13" } } });
    const { message } = await untilReason("static", "PreallocationInvalid");
    expect(message).toBe(
      'spec.preallocations.web-4 is "10.63.0.13": 10.63.0.13 is preallocated to claim web-3 already; give each claim an address of its own',
    );
    await time.pass(LONG_MS);
    expect(kept("10.63.0.13")).toBe("web-3");
    await editPool("static", { spec: { preallocations: { "web-4": "10.63.0.14" } } });
    await untilReason("static", "Serving");
    await becomes(() => kept("10.63.0.14"), "web-4");
  });

  test("that the server refuses to be written does not hold up others", async () => {
    await network("red", RED);
    let tries = 0;
    api.admit = ({ object }) => {
      if ((object as KubeObject)?.spec?.owner?.name !== "web-0") return null;
      tries += 1;
      return "not this one";
    };
    await createPool("static", pool({ "web-0": "10.63.0.10", "web-1": "10.63.0.11" }));
    await becomes(() => kept("10.63.0.11"), "web-1");
    await becomes(
      () =>
        condition("static", "PreallocationsKept")?.message.startsWith(
          "10.63.0.10, preallocated to claim web-0, cannot be kept: ",
        ),
      true,
    );
    tries = 0;
    await time.pass(600_000);
    expect(tries, "tries in ten minutes").toBeLessThan(12);
    api.admit = () => null;
    await editPool("static", { spec: { preallocations: { "web-2": "10.63.0.12" } } });
    await time.pass(10_000);
    expect([kept("10.63.0.10"), kept("10.63.0.12")], "an edit ends the wait").toEqual(["web-0", "web-2"]);
  });
});
