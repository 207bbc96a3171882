/** What others write into claims, and what comes of it: docs/threats.md, "What claims can hold". */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** The network's name in each VM. */
const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };
/** Several passes of the controller and a grace, ms. */
const PASSES_MS = 30_000;

let world: World;
let blue: Network;
let bank: Network;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], admission: true, controller: {} });
  blue = await world.network("blue", { subnets: "10.1.0.0/24" });
  // Of another namespace, which shares it with nobody.
  bank = { name: "bank", config: configOf("bank", { subnets: "10.2.0.0/24" }) };
  await world.kubevirt.createNamespace("bank");
  await world.kubevirt.createNad("bank", bank.name, bank.config);
  const isOurs = async () => (await world.networkObject("bank"))?.status?.conditions?.[0]?.status === "True";
  await world.until(isOurs, "bank to be imported");
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const pathTo = (vm: Vm) => pathOf(NAMESPACE, "ipamclaims", claimName(vm, LOGICAL), "k8s.cni.cncf.io/v1alpha1");
const claimOf = (vm: Vm): Promise<KubeObject> => world.readClaim(claimName(vm, LOGICAL));
const list = (vm: Vm, ips: readonly string[]) => world.cluster.api.patch(`${pathTo(vm)}/status`, { status: { ips } });

async function running(name: string) {
  const networks = [{ logical: LOGICAL, nad: blue.name, network: blue.name }];
  const vm = await world.kubevirt.createVm(NAMESPACE, name, networks);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  return { vm, pod, ips: await world.given(pod, blue, NIC) };
}

async function stop({ vm, pod }: { readonly vm: Vm; readonly pod: KubeObject }): Promise<void> {
  await world.kubevirt.stopVm(vm);
  await world.del(pod, blue, NIC);
}

async function start(vm: Vm, node = "node-b"): Promise<string[]> {
  const { pod } = await world.kubevirt.startVm(vm, node);
  return world.given(pod, blue, NIC);
}

/** Sooner or later. */
async function says(vm: Vm, ips: readonly string[], network = "blue"): Promise<void> {
  let said: unknown;
  const isSaid = async () => {
    const { spec, status } = await claimOf(vm);
    said = { network: spec.network, ips: status?.ips };
    return JSON.stringify(said) === JSON.stringify({ network, ips });
  };
  await world.until(isSaid, "the claim to say what it has").catch(() => expect(said).toEqual({ network, ips }));
}

test.each<[string, (own: string) => string[]]>([
  ["with another", () => ["10.1.0.200/24"]],
  ["with another one first", (own) => ["10.1.0.200/24", own]],
  ["with what nobody can read", () => ["nonsense"]],
  ["with nothing", () => []],
])("a list that is written over %s moves and releases nothing, whether the VM runs or not", async (name, written) => {
  const before = await running(`written-${name.replaceAll(" ", "-")}`);
  const own = before.ips[0] as string;
  const ips = written(own);
  await list(before.vm, ips);
  await says(before.vm, before.ips);
  await stop(before);
  await list(before.vm, ips);
  await says(before.vm, before.ips);
  await world.stays("blue", own);
  expect(await world.allocation(blue, "10.1.0.200/24")).toBeNull();
  await list(before.vm, ips);
  expect(await start(before.vm)).toEqual(before.ips);
});

test("a network that somebody writes into a claim moves nothing, and is put back", async () => {
  const before = await running("pointed");
  await world.cluster.api.patch(pathTo(before.vm), { spec: { network: "bank" } });
  await says(before.vm, before.ips);
  await stop(before);
  await world.cluster.api.patch(pathTo(before.vm), { spec: { network: "bank" } });
  expect(await start(before.vm)).toEqual(before.ips);
  await says(before.vm, before.ips);
});

test("what a claim that has nothing lists is reserved where its namespace may use the network, one of each subnet", async () => {
  await world.claim("here", "blue", { ips: ["10.1.0.220/24", "10.1.0.221/24", "10.9.0.1/24", "10.1.0.255/24"] });
  await world.claim("there", "bank", { ips: ["10.2.0.220/24"] });
  await world.becomes("blue", "10.1.0.220/24", "Bound");
  await world.advance(PASSES_MS);
  const ofClaims = async (network: Network) => {
    const all = await world.allocations(network);
    return all.filter(({ spec }) => ["here", "there"].includes(spec.owner.name)).map(({ spec }) => spec.address);
  };
  expect(await ofClaims(blue)).toEqual(["10.1.0.220/24"]);
  expect(await ofClaims(bank)).toEqual([]);
});

test("a stolen token that makes an allocation in a claim's name and lists it takes nothing from its stopped VM", async () => {
  const before = await running("robbed");
  await stop(before);
  const thief = (world.cluster as MemoryCluster).connectThief("node-b")("", world.cluster.time.clock);
  const send = async (method: "POST" | "PATCH", path: string, body: object) => {
    const deadlineMs = thief.clock.monotonicMs() + 5_000;
    const patch = method === "PATCH" ? ({ patch: "merge" } as const) : {};
    const sent = thief.send({ method, path, body, priority: "add", deadlineMs, ...patch });
    return (await world.cluster.time.run(sent)).status;
  };
  const { metadata } = await claimOf(before.vm);
  const { namespace, name, uid } = metadata;
  const owner = { kind: "IPAMClaim", namespace, name, uid, interface: "" } as const;
  const theirs = "10.1.0.230/24";
  const object = newAllocation(
    "blue",
    parseInterfaceAddress(theirs),
    { owner, attachment: null },
    "2026-01-01T00:00:00Z",
  );
  expect(await send("POST", ALLOCATIONS_PATH, object)).toBe(201);
  expect(await send("PATCH", `${pathTo(before.vm)}/status`, { status: { ips: [theirs, ...before.ips] } })).toBe(403);
  expect(await send("PATCH", `${pathTo(before.vm)}/status`, { status: { ips: [theirs] } })).toBe(403);
  expect(await send("PATCH", pathTo(before.vm), { spec: { network: "bank" } })).toBe(403);
  expect(await send("PATCH", `${pathTo(before.vm)}/status`, { status: { ips: [...before.ips, theirs] } })).toBe(200);
  await world.becomes("blue", theirs, "Cooling");
  await says(before.vm, before.ips);
  expect(await start(before.vm)).toEqual(before.ips);
});
