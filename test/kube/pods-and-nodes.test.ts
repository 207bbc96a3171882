/**
 * Pods made anew, sandboxes and DELs in the wrong order, nodes that go and come back: who had an address and who has it
 * now.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { NodeDaemon } from "../harness/node.ts";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { added, addedInTheEnd, checked, deleted, type Guest } from "../harness/world/guests.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const WITNESS = ["--witness-interval-seconds", "1", "--witness-grace-seconds", "1"];

let world: World;
let a: NodeDaemon;
let b: NodeDaemon;

beforeAll(async () => {
  expect(process.getuid?.(), "network namespaces need root").toBe(0);
  world = await World.start({ api: "memory", time: "machine" });
  await world.startController();
  a = await world.startNode("node-a", { args: WITNESS });
  b = await world.startNode("node-b", { args: WITNESS });
});
afterAll(async () => {
  await world?.stop();
});

const attachments = async (net: Network) =>
  (await world.allocations(net)).flatMap(({ status }) => Object.keys(status?.attachments ?? {})).sort();

test("a StatefulSet's pod that is recreated on another node before the old DEL gets other addresses", async () => {
  const net = await world.network("stateful", { subnets: "10.60.0.0/24,fd60::/64" });
  const old = await world.guest(net, a.name, "db-0");
  const oldIps = await added(a, old);
  await world.kubevirt.removePod(old.pod);
  const young = await world.guest(net, b.name, "db-0");
  const youngIps = await added(b, young);
  expect(youngIps.filter((ip) => oldIps.includes(ip))).toEqual([]);
  await world.settledWith(net, [
    [old, oldIps],
    [young, youngIps],
  ]);
  await deleted(a, old);
  await deleted(a, old);
  await world.settledWith(net, [[young, youngIps]]);
  expect(await added(b, young)).toEqual(youngIps);
  // Its node does not know the young one.
  await deleted(a, young);
  await world.settledWith(net, [[young, youngIps]]);
  await deleted(b, young);
  await world.settledWith(net, []);
});

test("new sandboxes of a pod keep its addresses, whichever DELs come late, repeated or without a network name", async () => {
  const net = await world.network("sandboxes", { subnets: "10.61.0.0/24,fd61::/64" });
  const pod = await world.guest(net, a.name);
  const [one, two, three] = [{ containerId: "one" }, { containerId: "two" }, { containerId: "three" }];
  const ips = await added(a, pod, one);
  expect(await added(a, pod, two)).toEqual(ips);
  await deleted(a, pod, one);
  await world.settledWith(net, [[pod, ips]]);
  expect(await attachments(net)).toEqual(["two/net1", "two/net1"]);
  await deleted(a, pod, two);
  expect(await added(a, pod, three)).toEqual(ips);
  for (const late of [one, two, two]) await deleted(a, pod, late);
  await world.settledWith(net, [[pod, ips]]);
  expect(await attachments(net)).toEqual(["three/net1", "three/net1"]);
  const nameless = { type: "bridge", ipam: { type: "holdfast-ipam" } };
  await deleted(a, pod, { ...three, config: { cniVersion: "1.0.0", ...nameless } });
  await world.settledWith(net, []);
  await deleted(a, pod, { ...three, config: {} });

  const vm = await world.vmGuest(net, a.name);
  const vmIps = await added(a, vm, one);
  expect(await added(a, vm, two)).toEqual(vmIps);
  await deleted(a, vm, one);
  await world.settledWith(net, [[vm, vmIps]]);
  expect((await attachments(net)).every((key) => key.startsWith("two/"))).toBe(true);
  await deleted(a, vm, two);
  expect(await added(a, vm, three)).toEqual(vmIps);
  await deleted(a, vm, two);
  await deleted(a, vm, { ...three, config: { cniVersion: "1.0.0", ...nameless } });
  await world.settledWith(net, [[vm, vmIps]]);
  expect(await attachments(net)).toEqual([]);
});

test("DELs that overtake their ADDs leave no address allocated", async () => {
  const net = await world.network("overtaken", { subnets: "10.62.0.0/24,fd62::/64" });
  const guests = await Promise.all(
    Array.from({ length: 12 }, (_, index) => (index % 3 === 0 ? world.vmGuest(net, a.name) : world.guest(net, a.name))),
  );
  const answers = await Promise.all(
    guests.map(async (guest, index) => {
      const adding = a.add(guest.pod, guest.options);
      await pause(index * 4);
      await deleted(a, guest);
      return adding;
    }),
  );
  for (const answer of answers) if (answer.code !== 0) expect(answer.json().code).toBeGreaterThan(0);
  const kept = await Promise.all(
    guests.filter(({ vm }) => vm !== null).map(async (vm) => [vm, await world.published(vm)] as const),
  );
  await until(async () => (await attachments(net)).length === 0, "the late ADDs' release");
  const bound = await world.bound(net);
  const pods = guests.filter(({ vm }) => vm === null).map(({ pod }) => pod.metadata.uid);
  await until(
    async () => (await world.bound(net)).every((text) => !pods.some((uid) => text.endsWith(uid))),
    `the pods' release: ${bound}`,
  );
  await checked(a);
  for (const [vm, ips] of kept) {
    const now = await addedInTheEnd(a, vm, { containerId: `later-${vm.pod.metadata.uid}` });
    if (ips.length > 0) expect(now).toEqual(ips);
  }
});

test("after its node is deleted a pod's addresses are released, and late DELs change nothing", async () => {
  const net = await world.network("lostnode", { subnets: "10.63.0.0/29", cooldownSeconds: 0 });
  const c = await world.startNode("node-c", { process: true });
  const guests = [await world.guest(net, c.name), await world.guest(net, c.name), await world.vmGuest(net, c.name)];
  const ips: string[][] = [];
  for (const guest of guests) ips.push(await added(c, guest));
  c.process.kill("SIGSTOP");
  for (const { pod } of guests) await world.kubevirt.removePod(pod);
  await pause(2_500);
  // As long as the node is there its containers may run.
  expect(await world.bound(net)).toHaveLength(3);
  await world.kubevirt.deleteNode(c.name);
  const vm = guests[2] as Guest;
  await until(async () => (await world.bound(net)).length === 1, "the release of the lost node's pods");
  await until(async () => (await attachments(net)).length === 0, "the claim's attachment to be pruned");
  const next: [Guest, string[]][] = [];
  for (let index = 0; index < 5; index++) {
    const guest = await world.guest(net, a.name);
    // What was released is published within seconds.
    next.push([guest, await addedInTheEnd(a, guest)]);
  }
  expect(next.flatMap(([, one]) => one)).toEqual(expect.arrayContaining([...(ips[0] ?? []), ...(ips[1] ?? [])]));
  await world.kubevirt.createNode(c.name);
  c.process.kill("SIGCONT");
  for (const guest of guests) await deleted(c, guest);
  await world.settledWith(net, [...next, [vm, ips[2] as string[]]]);
});

test("without a DEL a container whose network namespace is gone is ended once its pod is gone or finished", async () => {
  const net = await world.network("witness", { subnets: "10.64.0.0/24,fd64::/64" });
  const [living, gone, done, seen] = [
    await world.guest(net, a.name),
    await world.guest(net, a.name),
    await world.vmGuest(net, a.name),
    await world.guest(net, a.name),
  ];
  const held: (readonly [Guest, string[]])[] = [];
  const spaces = new Map<Guest, Netns>();
  for (const guest of [living, gone, done, seen]) {
    const netns = new Netns();
    spaces.set(guest, netns);
    held.push([guest, await added(a, guest, { netns: netns.path })]);
  }
  for (const guest of [living, gone, done]) spaces.get(guest)?.remove();
  // The pod of one whose namespace stands is gone: its container may run.
  await world.kubevirt.removePod(seen.pod);
  await pause(3_000);
  expect(await attachments(net)).toHaveLength(8);
  await world.kubevirt.removePod(gone.pod);
  await world.kubevirt.finishPod(done.pod);
  await until(async () => (await attachments(net)).length === 4, "the witness");
  await world.settledWith(
    net,
    held.filter(([guest]) => guest !== gone),
  );
  await untilSaid(() => a.log, "its network namespace is gone and no DEL came; ended");
  expect(await added(a, living)).toEqual(held[0]?.[1]);
  await deleted(a, living);
  await deleted(a, seen);
});

/** A network namespace with a path, until it is removed. */
class Netns {
  static #count = 0;
  readonly path: string;
  readonly #name: string;

  constructor() {
    Netns.#count += 1;
    this.#name = `holdfast-kube-${process.pid}-${Netns.#count}`;
    this.path = `/run/netns/${this.#name}`;
    expect(spawnSync("ip", ["netns", "add", this.#name]).status).toBe(0);
    onTestFinished(() => this.remove());
  }

  remove(): void {
    if (existsSync(this.path)) expect(spawnSync("ip", ["netns", "delete", this.#name]).status).toBe(0);
  }
}
