/** Somebody takes allocations away: a plain delete, one by force, a restored etcd. Living addresses stay, lost ones are told. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ALLOCATIONS_PATH, BOUND_FINALIZER, type IPAllocation, objectPath } from "../../kube/objects.ts";
import { until } from "../harness/daemon.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { added, addedInTheEnd, checked, deleted, type Guest, type Net, pause, Scene } from "./fault-scene.ts";

let scene: Scene;
let a: NodeDaemon;
let b: NodeDaemon;
/** Compares with the API every second; the others only after a loss of touch. */
let keen: NodeDaemon;

beforeAll(async () => {
  scene = await Scene.start();
  await scene.controller();
  const args = ["--recovery-seconds", "1"];
  a = await scene.node("node-a", { args });
  b = await scene.node("node-b", { args });
  keen = await scene.node("node-c", { args: [...args, "--reassert-interval-seconds", "1"] });
});
afterAll(async () => {
  await scene?.stop();
});

const pathOf = ({ metadata }: IPAllocation) => objectPath(ALLOCATIONS_PATH, metadata.name);
const attachedTo = async (net: Net) =>
  (await scene.allocations(net)).flatMap(({ status }) => Object.keys(status?.attachments ?? {}));

/** Deletes as `kubectl delete` does, and with the finalizer taken off for those who insist. */
async function remove(net: Net, { byForce = false } = {}): Promise<IPAllocation[]> {
  const objects = await scene.allocations(net);
  for (const object of objects) {
    if (byForce) await scene.cluster.api.patch(pathOf(object), { metadata: { finalizers: null } });
    await scene.cluster.api.delete(pathOf(object));
  }
  return objects;
}

/** Gives an object to another pod, in one write: in between, the daemon would restore what it misses. */
async function give(object: IPAllocation, { pod }: Guest): Promise<void> {
  const { namespace, name, uid } = pod.metadata;
  await scene.cluster.api.patch(pathOf(object), {
    metadata: { labels: { "ipam.holdfast.dev/owner-uid": uid } },
    spec: { owner: { kind: "Pod", namespace, name, uid, interface: "net1" } },
    status: { attachments: null },
  });
}

test("kubectl delete ipalloc --all: what is Bound stays and serves on", async () => {
  const net = await scene.net("deleted", "10.50.0.0/24,fd50::/64", { cooldownSeconds: 3600 });
  const [pod, left, vm] = [
    await scene.pod(net, a.name),
    await scene.pod(net, a.name),
    await scene.vm(net, a.name),
  ];
  const [podIps, leftIps, vmIps] = [await added(a, pod), await added(a, left), await added(a, vm)];
  await deleted(a, left);
  await scene.settled(net, [
    [pod, podIps],
    [vm, vmIps],
  ]);
  await remove(net);
  const objects = await scene.allocations(net);
  expect(objects).toHaveLength(4);
  for (const { metadata } of objects) {
    expect(metadata.deletionTimestamp).toBeDefined();
    expect(metadata.finalizers).toEqual([BOUND_FINALIZER]);
  }
  expect(await added(a, pod)).toEqual(podIps);
  const target = await scene.target(vm, b.name);
  expect(await added(b, target)).toEqual(vmIps);
  await deleted(a, vm);
  await until(async () => (await attachedTo(net)).length === 4, "the source's end");
  const sandbox = { containerId: `again-${pod.pod.metadata.uid}` };
  expect(await added(a, pod, sandbox)).toEqual(podIps);
  // What rested is gone, so nothing says any more that it should rest.
  const again = await scene.pod(net, a.name);
  const againIps = await added(a, again);
  expect(againIps.filter((ip) => [...podIps, ...vmIps].includes(ip))).toEqual([]);
  expect(leftIps).toHaveLength(2);
  await deleted(a, pod, sandbox);
  await deleted(a, again);
  await deleted(b, target);
  // With the pod's end its objects go for good; the claim's stay for as long as it is there.
  await scene.settled(net, [[vm, vmIps]]);
  const next = await scene.target(target, a.name);
  expect(await added(a, next)).toEqual(vmIps);
  await deleted(a, next);
});

test("deleted by force: restored at the next look, and after a loss of touch", async () => {
  const net = await scene.net("forced", "10.51.0.0/24,fd51::/64");
  const [pod, vm] = [await scene.pod(net, keen.name), await scene.vm(net, keen.name)];
  const held = [
    [pod, await added(keen, pod)],
    [vm, await added(keen, vm)],
  ] as const;
  const before = await scene.allocations(net);
  await remove(net, { byForce: true });
  await scene.settled(net, held);
  const known = new Set(before.map(({ metadata }) => metadata.uid));
  const after = await scene.allocations(net);
  expect(after.filter(({ metadata }) => known.has(metadata.uid))).toEqual([]);
  expect(after.map(({ metadata }) => metadata.finalizers)).toEqual(after.map(() => [BOUND_FINALIZER]));
  expect((await attachedTo(net)).length).toBe(4);
  expect(keen.log).toContain("are restored");

  const [podA, vmA] = [await scene.pod(net, a.name), await scene.vm(net, a.name)];
  const heldA = [
    [podA, await addedInTheEnd(a, podA)],
    [vmA, await addedInTheEnd(a, vmA)],
  ] as const;
  await remove(net, { byForce: true });
  const { stdout } = await a.daemon.cli("check");
  expect(stdout).toMatch(/has no IPAllocation/);
  await scene.cluster.stopApiServer();
  await scene.cluster.startApiServer();
  await scene.settled(net, [...held, ...heldA]);
  expect(a.log).toContain("are restored");
  for (const guest of [podA, vmA]) await deleted(a, guest);
  for (const guest of [pod, vm]) await deleted(keen, guest);
  await scene.settled(net, [held[1], heldA[1]]);
});

test("deleted by force, and a daemon that starts anew restores it before it serves", async () => {
  const net = await scene.net("restarted", "10.52.0.0/24");
  const vm = await scene.vm(net, a.name);
  const ips = await added(a, vm);
  await a.daemon.end("SIGKILL");
  await remove(net, { byForce: true });
  await a.restart();
  await scene.settled(net, [[vm, ips]]);
  const target = await scene.target(vm, b.name);
  expect(await added(b, target)).toEqual(ips);
});

test("in somebody else's hands meanwhile: said aloud, and a new sandbox gets another address", async () => {
  const net = await scene.net("lost", "10.53.0.0/24,fd53::/64");
  const pod = await scene.pod(net, keen.name);
  const quiet = await scene.pod(net, a.name);
  const [ips, quietIps] = [await added(keen, pod), await added(a, quiet)];
  const objects = await scene.allocations(net);
  const taken = objects.filter(({ spec }) => spec.address === ips[0] || spec.address === quietIps[0]);
  expect(taken).toHaveLength(2);
  const stranger = await scene.pod(net, b.name);
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
    (await keen.check(pod.pod, { ...pod.options, config: { ...net.config, prevResult: { ips: [] } } })).code,
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
  await scene.settled(net, [
    [pod, next],
    [quiet, quietNext],
    [stranger, [ips[0] as string, quietIps[0] as string]],
  ]);
});

async function lostEvents({ pod }: Guest): Promise<string[]> {
  const events = await scene.cluster.api.list("/api/v1/namespaces/shop/events");
  return events
    .filter((one) => one.involvedObject.uid === pod.metadata.uid && one.reason === "AddressLost")
    .map(({ message }) => message);
}

test("a restored etcd: older objects, without those made since", async () => {
  const net = await scene.net("etcd", "10.54.0.0/24", { cooldownSeconds: 0 });
  const [first, vm] = [await scene.pod(net, keen.name), await scene.vm(net, keen.name)];
  const vmIps = await added(keen, vm);
  await added(keen, first);
  const snapshot = await scene.allocations(net);
  await deleted(keen, first);
  const second = await scene.pod(net, keen.name);
  const third = await scene.pod(net, keen.name);
  const secondIps = await added(keen, second);
  const thirdIps = await added(keen, third);
  const target = await scene.target(vm, keen.name);
  expect(await added(keen, target)).toEqual(vmIps);
  await deleted(keen, vm);
  await scene.settled(net, [
    [vm, vmIps],
    [second, secondIps],
    [third, thirdIps],
  ]);
  await scene.kubevirt.removePod(first.pod);

  await keen.daemon.end("SIGKILL");
  await remove(net, { byForce: true });
  for (const { metadata, ...rest } of snapshot) {
    const { name, labels, annotations, finalizers } = metadata;
    await scene.cluster.api.create(ALLOCATIONS_PATH, {
      ...rest,
      metadata: { name, labels, annotations, finalizers },
    });
  }
  await keen.restart();
  const fourth = await scene.pod(net, keen.name);
  const fourthIps = await addedInTheEnd(keen, fourth);
  const living = [...vmIps, ...secondIps, ...thirdIps, ...fourthIps];
  expect(new Set(living).size).toBe(living.length);
  await until(async () => {
    const bound = await scene.bound(net);
    return [...vmIps, ...secondIps, ...thirdIps].every((ip) => bound.some((one) => one.startsWith(`${ip} `)));
  }, "what runs to be recorded again");
  await checked(keen);
});
