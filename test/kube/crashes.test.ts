/**
 * A daemon that dies, or stands still, at every step between intent and answer: nothing leaks, nothing is given twice.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { NodeDaemon } from "../harness/node.ts";
import { pause, until } from "../harness/wait.ts";
import { added, addedInTheEnd, deleted, died, type Guest } from "../harness/world/guests.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** Of a daemon that is stopped until its deadline is over, ms. */
const DEADLINE_MS = 3_000;

let world: World;
let nodes: NodeDaemon[];
let nets: Record<"single" | "dual", Network>;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  await world.startController();
  nets = {
    single: await world.network("single", { subnets: "10.20.0.0/24" }),
    dual: await world.network("dual", { subnets: "10.21.0.0/24,fd21::/64" }),
  };
  nodes = [];
  for (const name of ["node-a", "node-b"]) nodes.push(await world.startNode(name));
});
afterAll(async () => {
  await world?.stop();
});

/** Whose it is and how many addresses it has: each point has both pairs. */
const PAIRS = [
  [
    ["pod", "single"],
    ["vm", "dual"],
  ],
  [
    ["pod", "dual"],
    ["vm", "single"],
  ],
] as const;

/** The first commit is the start's own, the second the intent, the third the attachment. */
const POINTS = [
  "before-commit:1",
  "before-commit:2",
  "after-commit:2",
  "after-intent",
  "after-reserve",
  "before-publish",
  "after-publish",
  "before-commit:3",
  "after-commit:3",
  "before-answer",
];

const KILLS = POINTS.flatMap((point) => PAIRS.map((pair) => ({ point, pair, who: pair.join(" and ") })));

test.each(KILLS)("a repeated ADD succeeds after a kill at $point: $who", async ({ point, pair }) => {
  const one = async (kind: "pod" | "vm", net: Network, node: NodeDaemon) => {
    const HOLDFAST_KILL_POINT = point;
    await node.restart("SIGTERM", { wait: false, env: { HOLDFAST_KILL_POINT } });
    const guest = kind === "pod" ? await world.guest(net, node.name) : await world.vmGuest(net, node.name);
    // Refused until it is ready, cut short where the point is.
    await until(
      async () => {
        const answer = await node.add(guest.pod, guest.options);
        expect(answer.code, `answered although killed: ${answer.stdout}`).not.toBe(0);
        return node.process.signalCode !== null;
      },
      () => `the kill at ${point}; log: ${node.log}`,
    );
    await died(node);
    const before = kind === "pod" ? [] : await world.published(guest);
    await node.restart();
    const ips = await added(node, guest);
    expect(ips).toHaveLength(net === nets.dual ? 2 : 1);
    if (before.length > 0) expect(ips).toEqual(before);
    if (kind === "vm") expect(await world.published(guest)).toEqual(ips);
    return [guest, ips] as const;
  };
  const held = await Promise.all(pair.map(([kind, stack], at) => one(kind, nets[stack], nodes[at] as NodeDaemon)));
  await settled([...vms, ...held]);
  for (const [at, [guest]] of held.entries()) await deleted(nodes[at] as NodeDaemon, guest);
  vms.push(...held.filter(([guest]) => guest.vm !== null));
  await settled(vms);
  expect((await attachedAnywhere()).length).toBe(0);
});

async function settled(guests: readonly (readonly [Guest, readonly string[]])[]): Promise<void> {
  const of = (net: Network) => guests.filter(([guest]) => guest.network === net);
  await world.settledWith(nets.single, of(nets.single), []);
  await world.settledWith(nets.dual, of(nets.dual));
}

/** Claims keep what they have. */
const vms: (readonly [Guest, string[]])[] = [];

async function attachedAnywhere(): Promise<string[]> {
  const all = await Promise.all(Object.values(nets).map((net) => world.allocations(net)));
  return all.flat().flatMap(({ status }) => Object.keys(status?.attachments ?? {}));
}

describe("stopped, and continued after every grace", () => {
  test.each(["after-intent", "after-reserve", "before-publish", "after-publish", "before-answer"])(
    "at %s",
    async (point) => {
      const net = await world.network(`stopped-${point}`, { subnets: "10.22.0.0/28", cooldownSeconds: 0 });
      const [a, b] = nodes as [NodeDaemon, NodeDaemon];
      await a.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` } });
      const guest = await world.vmGuest(net, a.name);
      const pending = a.add(guest.pod, guest.options);
      await until(() => isStopped(a), `the stop at ${point}`);
      // Others want addresses meanwhile, until none is left; the controller looks again and again.
      const others: (readonly [Guest, string[]])[] = [];
      for (let full = false; !full; ) {
        const other = await world.guest(net, b.name);
        const answer = await b.add(other.pod, other.options);
        full = answer.code !== 0;
        if (!full) others.push([other, ipsOf(answer)]);
      }
      const reserved = point === "after-intent" ? 0 : 1;
      expect(others).toHaveLength(14 - reserved);
      const bound = await world.bound(net);
      await sweeps(3);
      expect(await world.bound(net)).toEqual(bound);
      if (reserved === 0) await deleted(b, (others.pop() as readonly [Guest, string[]])[0]);

      a.process.kill("SIGCONT");
      const answer = await pending;
      const ips = answer.code === 0 ? ipsOf(answer) : await addedInTheEnd(a, guest);
      expect(await world.published(guest)).toEqual(ips);
      const target = await world.target(guest, b.name);
      expect(await added(b, target)).toEqual(ips);
      await world.settledWith(net, [...others, [guest, ips]], []);
      for (const [other] of others) await deleted(b, other);
      await deleted(a, guest);
      await deleted(b, target);
      await world.settledWith(net, [[guest, ips]]);
    },
  );

  test.each(["after-intent", "after-reserve", "before-publish"])(
    "at %s, while another node publishes for the same claim",
    async (point) => {
      const net = await world.network(`raced-${point}`, { subnets: "10.23.0.0/24,fd23::/64" });
      const [a, b] = nodes as [NodeDaemon, NodeDaemon];
      await a.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` } });
      const guest = await world.vmGuest(net, a.name);
      const pending = a.add(guest.pod, guest.options);
      await until(() => isStopped(a), `the stop at ${point}`);
      const target = await world.target(guest, b.name);
      const ips = await added(b, target);
      expect(await world.published(guest)).toEqual(ips);
      a.process.kill("SIGCONT");
      const answer = await pending;
      expect(answer.code === 0 ? ipsOf(answer) : await addedInTheEnd(a, guest)).toEqual(ips);
      expect(await world.published(guest)).toEqual(ips);
      await world.settledWith(net, [[guest, ips]]);
      for (const [node, one] of [
        [a, guest],
        [b, target],
      ] as const)
        await deleted(node, one);
      await world.settledWith(net, [[guest, ips]]);
    },
  );

  test.each(["after-reserve", "after-publish"])(
    "at %s, until another pod has the address: the late ADD is not answered with it",
    async (point) => {
      const net = await world.network(`passed-${point}`, { subnets: "10.24.0.0/30", cooldownSeconds: 0 });
      const [, b] = nodes as [NodeDaemon, NodeDaemon];
      const c = await world.startNode(`stalled-${point}`, {
        args: ["--add-deadline-ms", String(DEADLINE_MS)],
        env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` },
      });
      const guests = [await world.guest(net, b.name), await world.guest(net, b.name)];
      const first = await added(b, guests[0] as Guest);
      const lost = await world.guest(net, c.name);
      const pending = c.add(lost.pod, lost.options);
      await until(() => isStopped(c), `the stop at ${point}`);
      await world.kubevirt.removePod(lost.pod);
      await world.kubevirt.deleteNode(c.name);
      await until(async () => (await world.bound(net)).length === 1, "the release of what the lost pod reserved");
      const second = await addedInTheEnd(b, guests[1] as Guest);
      await pause(DEADLINE_MS);
      c.process.kill("SIGCONT");
      const answer = await pending;
      expect(answer.code, `given twice: ${answer.stdout}`).not.toBe(0);
      await deleted(c, lost);
      const held = [
        [guests[0] as Guest, first],
        [guests[1] as Guest, second],
      ] as const;
      await world.settledWith(net, held);
      for (const [guest] of held) await deleted(b, guest);
    },
  );
});

function isStopped({ process }: NodeDaemon): boolean {
  return /^State:\s+T/m.test(readFileSync(`/proc/${process.pid}/status`, "utf8"));
}

/** Several passes of the controller, whose grace is a second. */
async function sweeps(count: number): Promise<void> {
  await pause(count * 1_000);
}
