/**
 * Answers that never arrive: an outcome nobody knows is asked for again under the same name, or answered "try again".
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { ApiProxy, ProxyAct, ProxyRequest } from "../harness/api-proxy.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { pause, until } from "../harness/wait.ts";
import { added, addedInTheEnd, deleted, type Guest } from "../harness/world/guests.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** Of the tested daemon, ms. */
const DEADLINE_MS = 1_500;

let world: World;
let node: NodeDaemon;
let proxy: ApiProxy;
let other: NodeDaemon;
let count = 0;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  const args = ["--add-deadline-ms", String(DEADLINE_MS)];
  ({ node, proxy } = await world.startProxiedNode("node-a", { args }));
  other = await world.startNode("node-b");
});
afterEach(() => proxy?.clear());
afterAll(async () => {
  await world?.stop();
});

const isCreate = ({ method, path }: ProxyRequest) => method === "POST" && path.includes("/ipallocations");
const isPut = ({ method, path }: ProxyRequest) => method === "PUT" && path.includes("/ipallocations/");
const isRead = ({ method, path }: ProxyRequest) => method === "GET" && path.includes("/ipallocations/");
const isStatus = ({ method, path }: ProxyRequest) => method === "PATCH" && path.endsWith("/status");
const isWrite = ({ method, path }: ProxyRequest) => method !== "GET" && !path.includes("/events");
const isWatch = ({ path }: ProxyRequest) => path.includes("watch=");
const isAny = (request: ProxyRequest) => !isWatch(request);
const status = (code: number, headers: Record<string, string> = {}): ProxyAct => ({
  status: code,
  headers,
  body: { kind: "Status", apiVersion: "v1", status: "Failure", code, message: `test says ${code}` },
});

/** A network that is imported already, and that nobody uses. */
async function freshNet(): Promise<Network> {
  count += 1;
  const net = await world.network(`lost-${count}`, { subnets: `10.30.${count}.0/24,fd30:${count}::/64` });
  const first = await world.guest(net, other.name);
  await addedInTheEnd(other, first);
  await deleted(other, first);
  return net;
}

/** A pod, a VM, its migration there and back, through whatever the rules do; then everybody goes. */
async function story(net: Network, add: typeof added): Promise<void> {
  const pod = await world.guest(net, node.name);
  const vm = await world.vmGuest(net, node.name);
  const [podIps, vmIps] = await Promise.all([add(node, pod), add(node, vm)]);
  expect(await world.published(vm)).toEqual(vmIps);
  expect(await add(node, pod)).toEqual(podIps);
  const away = await world.target(vm, other.name);
  expect(await added(other, away)).toEqual(vmIps);
  await deleted(node, vm);
  const back = await world.target(vm, node.name);
  expect(await add(node, back)).toEqual(vmIps);
  await deleted(other, away);
  const sandbox = { containerId: `again-${pod.pod.metadata.uid}` };
  expect(await add(node, pod, sandbox)).toEqual(podIps);
  await deleted(node, pod);
  await world.settledWith(net, [
    [pod, podIps],
    [vm, vmIps],
  ]);
  await deleted(node, pod, sandbox);
  await deleted(node, back);
  await world.settledWith(net, [[vm, vmIps]]);
  const left = (await world.allocations(net)).filter(({ status: now }) => now?.state === "Bound");
  expect(left.flatMap(({ status: now }) => Object.keys(now?.attachments ?? {}))).toEqual([]);
}

describe("a fault that passes within the deadline", () => {
  test.each<[string, (request: ProxyRequest) => boolean, ProxyAct, number]>([
    ["answers to creates lost", isCreate, "drop-answer", 4],
    ["answers to PUTs lost", isPut, "drop-answer", 6],
    ["answers to status patches lost", isStatus, "drop-answer", 3],
    ["reads dropped", isRead, "drop-request", 4],
    ["writes dropped", isWrite, "drop-request", 6],
    ["everything slow", isAny, { delayMs: 40 }, 200],
    ["too many requests", isAny, status(429, { "retry-after": "0" }), 12],
    ["server errors", isAny, status(500), 8],
    ["unavailable", isWrite, status(503), 6],
  ])("%s", async (_what, when, act, times) => {
    const net = await freshNet();
    proxy.rule({ when, act, times });
    await story(net, addedInTheEnd);
  });
});

describe("a fault that lasts", () => {
  /** Refused until the fault passes, or until the server turns out to have done it all. */
  const expectAwayThenSame = async (net: Network, guest: Guest, when: typeof isAny, act: ProxyAct) => {
    proxy.rule({ when, act });
    let ips: string[] | null = null;
    for (let attempt = 0; attempt < 2 && ips === null; attempt++) {
      const answer = await node.add(guest.pod, guest.options);
      if (answer.code === 0) ips = ipsOf(answer);
      else expect(answer.json().code, answer.stdout).toBe(11);
      expect(ips === null || attempt > 0, "answered although the outcome was unknown").toBe(true);
      // One address of each family at most: nobody goes to the next while the outcome is unknown.
      expect((await world.bound(net)).length).toBeLessThanOrEqual(2);
    }
    const reserved = (await world.bound(net)).map((text) => text.split(" ")[0]);
    proxy.clear();
    ips ??= await addedInTheEnd(node, guest);
    expect(ips).toEqual(expect.arrayContaining(reserved));
    await world.settledWith(net, [[guest, ips]]);
    return ips;
  };

  test.each<[string, typeof isAny, ProxyAct]>([
    ["answers to creates lost", isCreate, "drop-answer"],
    ["creates hang", isCreate, "hang"],
    ["answers to status patches lost", isStatus, "drop-answer"],
    ["writes are refused for now", isWrite, status(503)],
    ["too many requests, come back in an hour", isWrite, status(429, { "retry-after": "3600" })],
  ])("%s: the repeated ADD of a VM gets the addresses that were reserved", async (_what, when, act) => {
    const net = await freshNet();
    const vm = await world.vmGuest(net, node.name);
    const ips = await expectAwayThenSame(net, vm, when, act);
    expect(await world.published(vm)).toEqual(ips);
    await deleted(node, vm);
    await world.settledWith(net, [[vm, ips]]);
  });

  test("a DEL releases addresses whose create was not confirmed", async () => {
    const net = await freshNet();
    const pod = await world.guest(net, node.name);
    await expectAwayThenSame(net, pod, isCreate, "drop-answer");
    await deleted(node, pod);
    await world.settledWith(net, []);

    const unknown = await world.guest(net, node.name);
    proxy.rule({ when: isCreate, act: "drop-answer" });
    expect((await node.add(unknown.pod, unknown.options)).json().code).toBe(11);
    expect(await world.bound(net)).toHaveLength(2);
    await deleted(node, unknown);
    proxy.clear();
    await world.settledWith(net, []);
  });
});

describe("watches", () => {
  const watches = () => proxy.log.filter(isWatch);

  test("that end at once are retried slowly, and ADDs are served", async () => {
    const net = await freshNet();
    proxy.rule({ when: isWatch, act: "end-watch" });
    proxy.log.length = 0;
    proxy.endWatches();
    const pod = await world.guest(net, node.name);
    const ips = await addedInTheEnd(node, pod);
    await until(() => watches().length > 6, "several watches");
    const startMs = performance.now();
    const before = proxy.log.length;
    await pause(4_000);
    const perSecond = ((proxy.log.length - before) / (performance.now() - startMs)) * 1_000;
    expect(perSecond).toBeLessThan(6);
    proxy.clear();
    await deleted(node, pod);
    await world.settledWith(net, []);
    expect(ips).toHaveLength(2);
  });

  test("that are expired, refused or silent do not prevent ADDs", async () => {
    const gone = { kind: "Status", code: 410, reason: "Expired", message: "too old" };
    for (const act of ["silent-watch", { status: 410, body: gone }, status(500)] as const) {
      const net = await freshNet();
      proxy.log.length = 0;
      proxy.rule({ when: isWatch, act });
      proxy.endWatches();
      await until(() => watches().length > 0, "the watches to come again");
      const vm = await world.vmGuest(net, node.name);
      // After a gap others are given time first.
      const ips = await addedInTheEnd(node, vm);
      expect(await world.published(vm)).toEqual(ips);
      expect(watches().length).toBeLessThan(40);
      proxy.clear();
      proxy.cutConnections();
      await deleted(node, vm);
      await world.settledWith(net, [[vm, ips]]);
    }
  });
});
