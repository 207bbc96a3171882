/**
 * Somebody takes allocations away: a plain delete, one by force, a restored etcd. Living addresses stay, lost ones are
 * told.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Controller } from "../../controller/controller.ts";
import { ALLOCATIONS_PATH, BOUND_FINALIZER, type IPAllocation, objectPath } from "../../kube/objects.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { added, addedInTheEnd, checked, deleted, type Guest } from "../harness/world/guests.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;
let controller: Controller;
let a: NodeDaemon;
let b: NodeDaemon;
/** Compares with the API every second; the others only after a loss of touch. */
let keen: NodeDaemon;

beforeAll(async () => {
  world = await World.start({ api: "memory", time: "machine", node: { process: true } });
  const args = ["--recovery-seconds", "1"];
  a = await world.startNode("node-a", { args });
  b = await world.startNode("node-b", { args });
  keen = await world.startNode("node-c", { args: [...args, "--reassert-interval-seconds", "1"] });
});
beforeEach(async () => {
  controller = await world.startController();
});
afterEach(() => controller.stop());
afterAll(async () => {
  await world?.stop();
});

const pathOf = ({ metadata }: IPAllocation) => objectPath(ALLOCATIONS_PATH, metadata.name);
const attachedTo = async (net: Network) =>
  (await world.allocations(net)).flatMap(({ status }) => Object.keys(status?.attachments ?? {}));

/**
 * Deletes as `kubectl delete` does; by force with the finalizer taken off, while no controller puts back what is taken.
 */
async function remove(net: Network, { byForce = false } = {}): Promise<IPAllocation[]> {
  if (byForce) await controller.stop();
  const objects = await world.allocations(net);
  for (const object of objects) {
    if (byForce) await world.cluster.api.patch(pathOf(object), { metadata: { finalizers: null } });
    await world.cluster.api.delete(pathOf(object));
  }
  return objects;
}

/** Gives an object to another pod, in one write: in between, the daemon would restore what it misses. */
async function give(object: IPAllocation, { pod }: Guest): Promise<void> {
  const { namespace, name, uid } = pod.metadata;
  await world.cluster.api.patch(pathOf(object), {
    metadata: { labels: { "ipam.holdfast.dev/owner-uid": uid } },
    spec: { owner: { kind: "Pod", namespace, name, uid, interface: "net1" } },
    status: { attachments: null },
  });
}

test("kubectl delete ipalloc --all does not remove allocations that are Bound", async () => {
  const net = await world.network("deleted", { subnets: "10.50.0.0/24,fd50::/64", cooldownSeconds: 3600 });
  const [pod, left, vm] = [
    await world.guest(net, a.name),
    await world.guest(net, a.name),
    await world.vmGuest(net, a.name),
  ];
  const [podIps, leftIps, vmIps] = [await added(a, pod), await added(a, left), await added(a, vm)];
  await deleted(a, left);
  await world.settledWith(net, [
    [pod, podIps],
    [vm, vmIps],
  ]);
  await remove(net);
  const objects = await world.allocations(net);
  expect(objects).toHaveLength(4);
  for (const { metadata } of objects) {
    expect(metadata.deletionTimestamp).toBeDefined();
    expect(metadata.finalizers).toEqual([BOUND_FINALIZER]);
  }
  expect(await added(a, pod)).toEqual(podIps);
  const target = await world.target(vm, b.name);
  expect(await added(b, target)).toEqual(vmIps);
  await deleted(a, vm);
  await until(async () => (await attachedTo(net)).length === 4, "the source's end");
  const sandbox = { containerId: `again-${pod.pod.metadata.uid}` };
  expect(await added(a, pod, sandbox)).toEqual(podIps);
  // What cooled down is gone, so nothing says any more that it should.
  const again = await world.guest(net, a.name);
  const againIps = await added(a, again);
  expect(againIps.filter((ip) => [...podIps, ...vmIps].includes(ip))).toEqual([]);
  expect(leftIps).toHaveLength(2);
  await deleted(a, pod, sandbox);
  await deleted(a, again);
  await deleted(b, target);
  // With the pod's end its objects go for good; the claim's stay for as long as it is there.
  await world.settledWith(net, [[vm, vmIps]]);
  const next = await world.target(target, a.name);
  expect(await added(a, next)).toEqual(vmIps);
  await deleted(a, next);
});

test("force-deleted allocations are restored at the next comparison", async () => {
  const net = await world.network("forced", { subnets: "10.51.0.0/24,fd51::/64" });
  const [pod, vm] = [await world.guest(net, keen.name), await world.vmGuest(net, keen.name)];
  const held = [
    [pod, await added(keen, pod)],
    [vm, await added(keen, vm)],
  ] as const;
  const before = await world.allocations(net);
  await remove(net, { byForce: true });
  await world.settledWith(net, held);
  const known = new Set(before.map(({ metadata }) => metadata.uid));
  const after = await world.allocations(net);
  expect(after.filter(({ metadata }) => known.has(metadata.uid))).toEqual([]);
  expect(after.map(({ metadata }) => metadata.finalizers)).toEqual(after.map(() => [BOUND_FINALIZER]));
  expect((await attachedTo(net)).length).toBe(4);
  await untilSaid(() => keen.log, "are restored");

  const [podA, vmA] = [await world.guest(net, a.name), await world.vmGuest(net, a.name)];
  const heldA = [
    [podA, await addedInTheEnd(a, podA)],
    [vmA, await addedInTheEnd(a, vmA)],
  ] as const;
  await remove(net, { byForce: true });
  const { stdout } = await a.daemon.cli("check");
  expect(stdout).toMatch(/has no IPAllocation/);
  await world.cluster.stopApiServer();
  await world.cluster.startApiServer();
  await world.settledWith(net, [...held, ...heldA]);
  await untilSaid(() => a.log, "are restored");
  for (const guest of [podA, vmA]) await deleted(a, guest);
  for (const guest of [pod, vm]) await deleted(keen, guest);
  await world.settledWith(net, [held[1], heldA[1]]);
});

test("a starting daemon restores force-deleted allocations before it serves", async () => {
  const net = await world.network("restarted", { subnets: "10.52.0.0/24" });
  const vm = await world.vmGuest(net, a.name);
  const ips = await added(a, vm);
  await a.daemon.end("SIGKILL");
  await remove(net, { byForce: true });
  await a.restart();
  await world.settledWith(net, [[vm, ips]]);
  const target = await world.target(vm, b.name);
  expect(await added(b, target)).toEqual(ips);
});

test("an address that was given to another pod is reported as lost, and a new sandbox gets another one", async () => {
  const net = await world.network("lost", { subnets: "10.53.0.0/24,fd53::/64" });
  const pod = await world.guest(net, keen.name);
  const quiet = await world.guest(net, a.name);
  const [ips, quietIps] = [await added(keen, pod), await added(a, quiet)];
  const objects = await world.allocations(net);
  const taken = objects.filter(({ spec }) => spec.address === ips[0] || spec.address === quietIps[0]);
  expect(taken).toHaveLength(2);
  const stranger = await world.guest(net, b.name);
  for (const object of taken) await give(object, stranger);

  await until(() => keen.log.includes("still uses it"), "the loss to be told");
  await until(async () => (await lostEvents(pod)).length === 1, "the event");
  expect((await lostEvents(pod))[0]).toContain(ips[0]);
  const found = await keen.daemon.cli("check");
  expect(found.code).toBe(1);
  expect(found.stdout).toContain(`${ips[0]} of network lost`);
  expect(found.stdout).toContain("belongs to pod");
  expect((await keen.daemon.get("/metrics")).body).toContain("holdfast_attachments_lost 1");
  expect(
    (
      await keen.check(pod.pod, {
        ...pod.options,
        config: { ...JSON.parse(net.config), prevResult: { ips: [] } },
      })
    ).code,
  ).not.toBe(0);

  const next = await addedInTheEnd(keen, pod, { containerId: `again-${pod.pod.metadata.uid}` });
  expect(next).not.toContain(ips[0]);
  // The address of the other family was never lost, and nobody else may have had it in between.
  expect(next).toContain(ips[1]);
  const history = await keen.daemon.cli("history", (ips[0] as string).split("/")[0] as string);
  expect(history.stdout).toMatch(/lost/);
  // One that was not looked at yet finds out by itself.
  const quietNext = await addedInTheEnd(a, quiet, { containerId: `again-${quiet.pod.metadata.uid}` });
  expect(quietNext).not.toContain(quietIps[0]);
  await deleted(keen, pod);
  await deleted(a, quiet);
  await pause(1_500);
  await world.settledWith(net, [
    [pod, next],
    [quiet, quietNext],
    [stranger, [ips[0] as string, quietIps[0] as string]],
  ]);
});

async function lostEvents({ pod }: Guest): Promise<string[]> {
  const events = await world.cluster.api.list("/api/v1/namespaces/shop/events");
  return events
    .filter((one) => one.involvedObject.uid === pod.metadata.uid && one.reason === "AddressLost")
    .map(({ message }) => message);
}

test("allocations that a restored etcd does not have are restored by their node", async () => {
  const net = await world.network("etcd", { subnets: "10.54.0.0/24", cooldownSeconds: 0 });
  const [first, vm] = [await world.guest(net, keen.name), await world.vmGuest(net, keen.name)];
  const vmIps = await added(keen, vm);
  await added(keen, first);
  const snapshot = await world.allocations(net);
  await deleted(keen, first);
  const second = await world.guest(net, keen.name);
  const third = await world.guest(net, keen.name);
  const secondIps = await added(keen, second);
  const thirdIps = await added(keen, third);
  const target = await world.target(vm, keen.name);
  expect(await added(keen, target)).toEqual(vmIps);
  await deleted(keen, vm);
  await world.settledWith(net, [
    [vm, vmIps],
    [second, secondIps],
    [third, thirdIps],
  ]);
  await world.kubevirt.removePod(first.pod);

  await keen.daemon.end("SIGKILL");
  await remove(net, { byForce: true });
  for (const { metadata, ...rest } of snapshot) {
    const { name, labels, annotations, finalizers } = metadata;
    await world.cluster.api.create(ALLOCATIONS_PATH, {
      ...rest,
      metadata: { name, labels, annotations, finalizers },
    });
  }
  await keen.restart();
  const fourth = await world.guest(net, keen.name);
  const fourthIps = await addedInTheEnd(keen, fourth);
  const living = [...vmIps, ...secondIps, ...thirdIps, ...fourthIps];
  expect(new Set(living).size).toBe(living.length);
  await until(async () => {
    const bound = await world.bound(net);
    return [...vmIps, ...secondIps, ...thirdIps].every((ip) => bound.some((one) => one.startsWith(`${ip} `)));
  }, "what runs to be recorded again");
  await checked(keen);
});
