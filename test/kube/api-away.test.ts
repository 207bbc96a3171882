/**
 * The API server, or etcd behind it, is away: what was answered holds, DELs succeed, nothing new is given, all is made
 * good.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CniAnswer } from "../harness/daemon.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { pause, until } from "../harness/wait.ts";
import { addedInTheEnd, checked, deleted, type Guest, type VmGuest } from "../harness/world/guests.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const DEADLINE_MS = 1_500;
const ARGS = ["--add-deadline-ms", String(DEADLINE_MS)];

let world: World;
let a: NodeDaemon;
let b: NodeDaemon;
let net: Network;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  net = await world.network("blue", { subnets: "10.40.0.0/24,fd40::/64" });
  a = await world.startNode("node-a", { args: ARGS });
  b = await world.startNode("node-b", { args: ARGS });
});
afterAll(async () => {
  await world?.stop();
});

interface Running {
  readonly pod: Guest;
  readonly podAnswer: CniAnswer;
  readonly leaving: Guest;
  readonly vm: Guest;
  readonly vmAnswer: CniAnswer;
  /** Exists, and has no addresses yet. */
  readonly late: Guest;
}

/** Two pods and a VM that run on node-a, and a pod that comes too late. */
async function running(): Promise<Running> {
  const pod = await world.guest(net, a.name);
  const leaving = await world.guest(net, a.name);
  const vm = await world.vmGuest(net, a.name);
  await addedInTheEnd(a, pod);
  await addedInTheEnd(a, leaving);
  await addedInTheEnd(a, vm);
  const late = await world.guest(net, a.name);
  const [podAnswer, vmAnswer] = [await a.add(pod.pod, pod.options), await a.add(vm.pod, vm.options)];
  return { pod, podAnswer, leaving, vm, vmAnswer, late };
}

const check = (guest: Guest, answer: CniAnswer) =>
  a.check(guest.pod, { ...guest.options, config: { ...JSON.parse(net.config), prevResult: answer.json() } });
const status = () => a.daemon.cni("STATUS", "", { config: { ...JSON.parse(net.config), cniVersion: "1.1.0" } });

async function expectAwayServed({ pod, podAnswer, leaving, vm, vmAnswer, late }: Running): Promise<void> {
  const code = async (answer: Promise<CniAnswer>) => (await answer).json().code;
  expect((await a.add(pod.pod, pod.options)).stdout).toBe(podAnswer.stdout);
  expect((await a.add(vm.pod, vm.options)).stdout).toBe(vmAnswer.stdout);
  expect(await code(a.add(late.pod, late.options))).toBe(11);
  await deleted(a, leaving);
  await deleted(a, leaving);
  expect(await code(a.add(leaving.pod, { ...leaving.options, containerId: "anew" }))).toBe(11);
}

/** Everything is as if nothing had been: `late` gets its addresses, what was deleted is free. */
async function expectSettled({ pod, podAnswer, leaving, vm, vmAnswer, late }: Running): Promise<void> {
  const lateIps = await addedInTheEnd(a, late);
  const nodes = [a, b];
  const guests = [[pod, ipsOf(podAnswer)] as const, [vm, ipsOf(vmAnswer)] as const];
  await world.settledWith(net, [...gone, ...guests, [late, lateIps]], nodes);
  const target = await world.target(vm as VmGuest, b.name);
  expect(await addedInTheEnd(b, target)).toEqual(ipsOf(vmAnswer));
  await deleted(a, { ...leaving, options: { ...leaving.options, containerId: "anew" } });
  for (const guest of [pod, vm, late]) await deleted(a, guest);
  await deleted(b, target);
  gone.push([vm, ipsOf(vmAnswer)]);
  await world.settledWith(net, gone, nodes);
}

/** VMs of before: they keep their addresses. */
const gone: (readonly [Guest, readonly string[]])[] = [];

test("while the API server is stopped running containers are served, also by a restarted daemon", async () => {
  const now = await running();
  await world.cluster.stopApiServer();
  await expectAwayServed(now);
  expect((await check(now.vm, now.vmAnswer)).code).toBe(0);
  expect((await a.daemon.cli("list")).stdout).toContain(ipsOf(now.podAnswer)[0]);
  expect((await a.daemon.cli("check")).stdout).toMatch(/cannot be asked/);
  // Ready: what runs is served. It is the next start that cannot learn what it must know.
  expect((await status()).code).toBe(0);

  await a.restart("SIGKILL", { wait: false });
  await until(() => a.log.includes("listening"), "the socket");
  await expectAwayServed(now);
  expect((await check(now.vm, now.vmAnswer)).code).toBe(0);
  expect((await status()).json().code).toBe(50);
  expect((await a.daemon.get("/readyz")).status).toBe(503);

  await world.cluster.startApiServer();
  await a.daemon.ready();
  expect((await status()).code).toBe(0);
  await expectSettled(now);
});

test("DELs during an outage of the API server are carried out after it, also by a restarted daemon", async () => {
  const alone = await world.startNode("node-c", { args: ARGS });
  const [pod, vm] = [await world.guest(net, alone.name), await world.vmGuest(net, alone.name)];
  await addedInTheEnd(alone, pod);
  gone.push([vm, await addedInTheEnd(alone, vm)]);
  await world.cluster.stopApiServer();
  for (const guest of [pod, vm]) await deleted(alone, guest);
  await alone.restart("SIGKILL", { wait: false });
  await world.cluster.startApiServer();
  await alone.daemon.ready();
  await world.settledWith(net, gone);
  const left = (await world.allocations(net)).flatMap(({ status: now }) => Object.keys(now?.attachments ?? {}));
  expect(left).toEqual([]);
});

test("while etcd is stopped running containers are served", async () => {
  const now = await running();
  await world.server.stopEtcd();
  await expectAwayServed(now);
  expect((await check(now.vm, now.vmAnswer)).code).toBe(0);
  await world.server.startEtcd();
  await expectSettled(now);
});

test("while etcd hangs running containers are served", async () => {
  const now = await running();
  world.server.pauseEtcd();
  try {
    await expectAwayServed(now);
  } finally {
    world.server.continueEtcd();
  }
  await expectSettled(now);
});

test("many ADDs and DELs survive a restart of the API server", async () => {
  const guests = await Promise.all(
    Array.from({ length: 12 }, async (_, index) =>
      index % 3 === 0 ? world.vmGuest(net, a.name) : world.guest(net, index % 2 === 0 ? a.name : b.name),
    ),
  );
  const nodeOf = (guest: Guest) => (guest.pod.spec.nodeName === a.name ? a : b);
  const adds = Promise.all(guests.map((guest) => addedInTheEnd(nodeOf(guest), guest)));
  await pause(30);
  await world.cluster.stopApiServer();
  await world.cluster.startApiServer();
  const ips = await adds;
  const all = guests.map((guest, index) => [guest, ips[index] as string[]] as const);
  expect(new Set(ips.flat()).size).toBe(24);
  await world.settledWith(net, [...gone, ...all]);
  const dels = Promise.all(guests.map((guest) => deleted(nodeOf(guest), guest)));
  await world.cluster.stopApiServer();
  await dels;
  await world.cluster.startApiServer();
  gone.push(...all.filter(([guest]) => guest.vm !== null));
  await world.settledWith(net, gone);
});

test("an ADD survives an API server that refuses all requests just after its start", async () => {
  const now = await running();
  await world.cluster.stopApiServer();
  const asking = addedInTheEnd(a, now.late);
  await world.cluster.startApiServer();
  expect(await asking).toHaveLength(2);
  await checked(a);
  await deleted(a, now.leaving);
  await expectSettled(now);
});
