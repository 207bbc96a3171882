/** What one ADD asks of the API server: no list in the plain life of a pod or a VM; one where its claim may lack it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { Link } from "../harness/kube-fake/client/link.ts";
import { routeOf } from "../harness/kube-fake/routes.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { CLAIMS, claimObject, interfaceOf, KUBEVIRT, ownerOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** The network's name in each VM. */
const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };
const RESOURCES = new Set(["ipallocations", "ipamclaims", "virtualmachineinstances", "virtualmachines", "pods"]);

/** Of the claim, its VMI, and what it lists. */
const OF_A_START = [
  "GET ipallocations",
  "GET ipamclaims",
  "GET virtualmachineinstances",
  "PATCH ipamclaims/status",
  "PUT ipallocations",
];
const BY_LABEL = "LIST ipallocations by label from the cache";

let world: World;
let blue: Network;
let red: Network;
let strangers = 0;
const asked: string[] = [];

const link: Link = {
  fate: ({ method, path, query }, verb) => {
    const route = routeOf(path);
    if (route.kind !== "resource" || verb === "watch" || !RESOURCES.has(route.plural)) return undefined;
    const what = route.subresource === "" ? route.plural : `${route.plural}/${route.subresource}`;
    const { labelSelector, resourceVersionMatch } = query;
    const selected = labelSelector === undefined ? "" : " by label";
    const source = resourceVersionMatch === "NotOlderThan" ? " from the cache" : "";
    asked.push(method === "GET" && route.name === null ? `LIST ${what}${selected}${source}` : `${method} ${what}`);
    return undefined;
  },
};

beforeAll(async () => {
  // Without a controller nobody else writes.
  world = await World.start({ api: "memory" });
  blue = await world.network("blue", { subnets: "10.1.0.0/24" });
  red = await world.network("red", { subnets: "10.2.0.0/24" });
  for (const name of ["node-a", "node-b"]) await world.startNode(name, { way: link });
});
afterAll(() => world?.stop());

/** An ADD, and everything that is asked for it. */
async function counted(pod: KubeObject, network: Network, options: object = NIC) {
  // What the nodes do in the background is done, and the server's cache of allocations is as new as any claim.
  await world.advance(30_000);
  strangers += 1;
  const owner = { kind: "Pod", namespace: "elsewhere", name: "p", uid: `p${strangers}`, interface: "net1" } as const;
  const one = parseInterfaceAddress(`10.9.0.${strangers}/24`);
  await world.cluster.api.create(ALLOCATIONS_PATH, newAllocation("theirs", one, { owner, attachment: null }, "t"));
  await world.advance(1_000);
  asked.length = 0;
  const ips = await world.given(pod, network, options);
  await world.advance(1_000);
  return { ips, requests: asked.toSorted() };
}

const on = (network: Network) => [{ logical: LOGICAL, nad: network.name, network: network.name }];
const listOf = async (vm: Vm): Promise<string[]> => (await world.readClaim(claimName(vm, LOGICAL))).status?.ips ?? [];

/** A VM that runs on node-a. */
async function running(name: string) {
  const vm = await world.kubevirt.createVm(NAMESPACE, name, on(blue));
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  return { vm, pod, ips: await world.given(pod, blue, NIC) };
}

async function stop(vm: Vm, pod: KubeObject): Promise<void> {
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, blue, NIC);
  await world.kubevirt.removePod(pod);
}

/** One that ran, and is stopped. */
async function stopped(name: string) {
  const { vm, pod, ips } = await running(name);
  await stop(vm, pod);
  // Its next VMI is younger than its claim by the API server's clock, which has seconds.
  await world.advance(5_000);
  return { vm, ips };
}

/** Before its VM starts, as a backup tool does it, or another IPAM did. */
async function bringClaim(vm: Vm, ips: readonly string[]): Promise<void> {
  const name = claimName(vm, LOGICAL);
  const owner = ownerOf(KUBEVIRT, "VirtualMachine", vm);
  const claim = claimObject(vm, { name, network: blue.name, owner });
  await world.cluster.api.create(pathOf(NAMESPACE, "ipamclaims", "", CLAIMS), claim);
  await world.publish(name, { ips });
  await world.advance(5_000);
}

const started = async (vm: Vm) => (await world.kubevirt.startVm(vm, "node-b")).pod;

test("a pod without a claim: one write", async () => {
  const { pod, options } = await world.guest(blue, "node-a");
  expect((await counted(pod, blue, options)).requests).toEqual(["POST ipallocations"]);
});

test("the first use of a claim, as its VM starts: nothing is looked for", async () => {
  const vm = await world.kubevirt.createVm(NAMESPACE, "first", on(blue));
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const { ips, requests } = await counted(pod, blue);
  expect(requests).toEqual([
    "GET ipamclaims",
    "GET virtualmachineinstances",
    "PATCH ipamclaims/status",
    "POST ipallocations",
  ]);
  expect(await listOf(vm)).toEqual(ips);
});

test("a VM that starts again: what its claim lists is read, and nothing else", async () => {
  const { vm, ips } = await stopped("again");
  expect(await counted(await started(vm), blue)).toEqual({ ips, requests: OF_A_START });
});

test("a migration: its list leads to what the source has", async () => {
  const { vm, ips } = await running("migrates");
  const target = await world.kubevirt.migrate(vm, "node-b");
  const requests = [...OF_A_START, "GET pods", "GET virtualmachineinstances"].toSorted();
  expect(await counted(target, blue)).toEqual({ ips, requests });
});

test("a move to another network: one list, and the claim is written once", async () => {
  const { vm, ips: before } = await running("moves");
  const changed = await world.kubevirt.changeNetworks(vm, on(red));
  const target = await world.kubevirt.migrate(changed, "node-b");
  const { ips, requests } = await counted(target, red);
  expect(requests).toEqual([
    // What it lists is looked for there, too.
    "GET ipallocations",
    "GET ipamclaims",
    "GET virtualmachineinstances",
    "GET virtualmachineinstances",
    "GET virtualmachineinstances",
    BY_LABEL,
    "PATCH ipamclaims/status",
    "POST ipallocations",
  ]);
  expect(await listOf(vm)).toEqual([...before, ...ips]);
});

test("a way back to a network where it still has something: that is listed", async () => {
  const { vm, ips, pod } = await running("returns");
  const changed = await world.kubevirt.changeNetworks(vm, on(red));
  const target = await world.kubevirt.migrate(changed, "node-b");
  await world.given(target, red, NIC);
  await world.del(target, red, NIC);
  await world.kubevirt.removePod(target);
  await stop(changed, pod);
  const back = await counted(await started({ ...vm, networks: on(blue) }), blue);
  expect(back.ips).toEqual(ips);
  expect(back.requests).not.toContain(BY_LABEL);
});

test("an address that is asked for and does not count costs a list, once", async () => {
  const { vm } = await stopped("asks");
  const asking = { ...vm, annotations: { "network.kubevirt.io/addresses": `{"${LOGICAL}":["10.1.0.9"]}` } };
  const pod = await started(asking);
  const { ips, requests } = await counted(pod, blue);
  expect(ips).toEqual(["10.1.0.9/24"]);
  expect(requests).toEqual(
    [BY_LABEL, "GET ipallocations", "POST ipallocations", ...OF_A_START]
      .filter((one) => one !== "PUT ipallocations")
      .toSorted(),
  );
});

test("a claim that was restored with its list: what it lists is its wish, given after a list by its label", async () => {
  const { vm, ips } = await stopped("restored");
  const path = pathOf(NAMESPACE, "ipamclaims", claimName(vm, LOGICAL), CLAIMS);
  await world.cluster.api.patch(path, { metadata: { finalizers: null } });
  await world.cluster.api.delete(path);
  const [had] = (await world.allocations(blue)).filter(({ spec }) => ips.includes(spec.address));
  await world.cluster.api.patch(`${ALLOCATIONS_PATH}/${had?.metadata.name}`, { metadata: { finalizers: null } });
  await world.cluster.api.delete(`${ALLOCATIONS_PATH}/${had?.metadata.name}`);
  await bringClaim(vm, ips);
  const requests = [...OF_A_START, BY_LABEL, "POST ipallocations"]
    .filter((one) => one !== "PUT ipallocations")
    .toSorted();
  expect(await counted(await started(vm), blue)).toEqual({ ips, requests });
});

test("a claim that another IPAM has filled in: the same", async () => {
  const vm = await world.kubevirt.createVm(NAMESPACE, "brought", on(blue));
  await bringClaim(vm, ["10.1.0.55/24"]);
  const { ips, requests } = await counted(await started(vm), blue);
  expect(ips).toEqual(["10.1.0.55/24"]);
  expect(requests.filter((one) => one.startsWith("LIST"))).toEqual([BY_LABEL]);
});

test.each([
  ["emptied", () => []],
  ["another's", (others: string[]) => others],
  ["an address of nobody's", () => ["10.1.0.250/24"]],
] as const)("a list that was written over (%s) leads nowhere, its label does", async (what, listed) => {
  const other = await running(`other-${what.length}`);
  const { vm, ips } = await stopped(`broken-${what.length}`);
  await world.publish(claimName(vm, LOGICAL), { ips: listed(other.ips) });
  const back = await counted(await started(vm), blue);
  expect(back.ips).toEqual(ips);
  expect(back.requests.filter((one) => one.startsWith("LIST"))).toEqual([BY_LABEL]);
  expect(await listOf(vm)).toEqual([...listed(other.ips), ...ips]);
});

test("the target of a migration whose list does not lead to its source asks, too", async () => {
  const { vm, ips } = await running("lost");
  await world.publish(claimName(vm, LOGICAL), { ips: [] });
  const { ips: given, requests } = await counted(await world.kubevirt.migrate(vm, "node-b"), blue);
  expect(given).toEqual(ips);
  expect(requests.filter((one) => one.startsWith("LIST"))).toEqual([BY_LABEL]);
  expect(await listOf(vm)).toEqual(ips);
});

test("nor is its own address that is listed enough for the target, where the source runs with another", async () => {
  const { vm, ips: former } = await stopped("astray");
  const held = (await world.bound(blue)).map((line) => line.split(" ")[0]);
  const free = Array.from({ length: 200 }, (_, at) => `10.1.0.${at + 20}`).find((ip) => !held.includes(`${ip}/24`));
  const asking = { ...vm, annotations: { "network.kubevirt.io/addresses": `{"${LOGICAL}":["${free}"]}` } };
  const { vmi, pod } = await world.kubevirt.startVm(asking, "node-a");
  const ips = await world.given(pod, blue, NIC);
  expect(ips).toEqual([`${free}/24`]);
  // It asks no more, and somebody writes over what says that it has the other one.
  const annotations = { "network.kubevirt.io/addresses": null };
  const path = pathOf(NAMESPACE, "virtualmachineinstances", vmi.metadata.name, KUBEVIRT);
  await world.cluster.api.patch(path, { metadata: { annotations } });
  await world.publish(claimName(vm, LOGICAL), { ips: former });
  const { ips: given, requests } = await counted(await world.kubevirt.migrate(vm, "node-b"), blue);
  expect(given).toEqual(ips);
  expect(requests.filter((one) => one.startsWith("LIST"))).toEqual([BY_LABEL]);
});
