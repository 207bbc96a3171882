/** A daemon that dies, or stands still, at every step between intent and answer: nothing leaks, nothing is given twice. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../harness/daemon.ts";
import type { NodeDaemon } from "../harness/node.ts";
import {
  added,
  addedInTheEnd,
  deleted,
  died,
  type Guest,
  ipsOf,
  type Net,
  pause,
  Scene,
} from "./fault-scene.ts";

/** Of a daemon that is stopped until its deadline is over, ms. */
const DEADLINE_MS = 3_000;

let scene: Scene;
let nodes: NodeDaemon[];
let nets: Record<"single" | "dual", Net>;

beforeAll(async () => {
  scene = await Scene.start();
  await scene.controller();
  nets = {
    single: await scene.net("single", "10.20.0.0/24"),
    dual: await scene.net("dual", "10.21.0.0/24,fd21::/64"),
  };
  nodes = [];
  for (const name of ["node-a", "node-b", "node-c", "node-d"]) nodes.push(await scene.node(name));
});
afterAll(async () => {
  await scene?.stop();
});

const KINDS = [
  ["pod", "single"],
  ["pod", "dual"],
  ["vm", "single"],
  ["vm", "dual"],
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

test.each(POINTS)("killed at %s", async (point) => {
  const one = async (kind: "pod" | "vm", net: Net, node: NodeDaemon) => {
    const HOLDFAST_KILL_POINT = point;
    await node.restart("SIGTERM", { wait: false, env: { HOLDFAST_KILL_POINT } });
    const guest = kind === "pod" ? await scene.pod(net, node.name) : await scene.vm(net, node.name);
    // Refused until it is ready, cut short where the point is.
    await until(async () => {
      const answer = await node.add(guest.pod, guest.options);
      expect(answer.code, `answered although killed: ${answer.stdout}`).not.toBe(0);
      return node.daemon.process.signalCode !== null;
    }, `the kill at ${point}; log: ${node.log}`);
    await died(node);
    const before = kind === "pod" ? [] : await scene.published(guest);
    await node.restart();
    const ips = await added(node, guest);
    expect(ips).toHaveLength(net === nets.dual ? 2 : 1);
    if (before.length > 0) expect(ips).toEqual(before);
    if (kind === "vm") expect(await scene.published(guest)).toEqual(ips);
    return [guest, ips] as const;
  };
  const held = await Promise.all(
    KINDS.map(([kind, stack], index) => one(kind, nets[stack], nodes[index] as NodeDaemon)),
  );
  await settled([...vms, ...held]);
  for (const [index, [guest]] of held.entries()) await deleted(nodes[index] as NodeDaemon, guest);
  vms.push(...held.filter(([guest]) => guest.vm !== null));
  await settled(vms);
  expect((await attachedAnywhere()).length).toBe(0);
});

async function settled(guests: readonly (readonly [Guest, readonly string[]])[]): Promise<void> {
  const of = (net: Net) => guests.filter(([guest]) => guest.net === net);
  await scene.settled(nets.single, of(nets.single), []);
  await scene.settled(nets.dual, of(nets.dual));
}

/** Claims keep what they have. */
const vms: (readonly [Guest, string[]])[] = [];

async function attachedAnywhere(): Promise<string[]> {
  const all = await Promise.all(Object.values(nets).map((net) => scene.allocations(net)));
  return all.flat().flatMap(({ status }) => Object.keys(status?.attachments ?? {}));
}

describe("stopped, and continued after every grace", () => {
  test.each(["after-intent", "after-reserve", "before-publish", "after-publish", "before-answer"])(
    "at %s",
    async (point) => {
      const net = await scene.net(`stopped-${point}`, "10.22.0.0/28", { cooldownSeconds: 0 });
      const [a, b] = nodes as [NodeDaemon, NodeDaemon];
      await a.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` } });
      const guest = await scene.vm(net, a.name);
      const pending = a.add(guest.pod, guest.options);
      await until(() => isStopped(a), `the stop at ${point}`);
      // Others want addresses meanwhile, until none is left; the controller looks again and again.
      const others: (readonly [Guest, string[]])[] = [];
      for (let full = false; !full; ) {
        const other = await scene.pod(net, b.name);
        const answer = await b.add(other.pod, other.options);
        full = answer.code !== 0;
        if (!full) others.push([other, ipsOf(answer)]);
      }
      const reserved = point === "after-intent" ? 0 : 1;
      expect(others).toHaveLength(14 - reserved);
      const bound = await scene.bound(net);
      await sweeps(3);
      expect(await scene.bound(net)).toEqual(bound);
      if (reserved === 0) await deleted(b, (others.pop() as readonly [Guest, string[]])[0]);

      a.daemon.process.kill("SIGCONT");
      const answer = await pending;
      const ips = answer.code === 0 ? ipsOf(answer) : await addedInTheEnd(a, guest);
      expect(await scene.published(guest)).toEqual(ips);
      const target = await scene.target(guest, b.name);
      expect(await added(b, target)).toEqual(ips);
      await scene.settled(net, [...others, [guest, ips]], []);
      for (const [other] of others) await deleted(b, other);
      await deleted(a, guest);
      await deleted(b, target);
      await scene.settled(net, [[guest, ips]]);
    },
  );

  test.each(["after-intent", "after-reserve", "before-publish"])(
    "at %s, while another node publishes for the same claim",
    async (point) => {
      const net = await scene.net(`raced-${point}`, "10.23.0.0/24,fd23::/64");
      const [a, b] = nodes as [NodeDaemon, NodeDaemon];
      await a.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` } });
      const guest = await scene.vm(net, a.name);
      const pending = a.add(guest.pod, guest.options);
      await until(() => isStopped(a), `the stop at ${point}`);
      const target = await scene.target(guest, b.name);
      const ips = await added(b, target);
      expect(await scene.published(guest)).toEqual(ips);
      a.daemon.process.kill("SIGCONT");
      const answer = await pending;
      expect(answer.code === 0 ? ipsOf(answer) : await addedInTheEnd(a, guest)).toEqual(ips);
      expect(await scene.published(guest)).toEqual(ips);
      await scene.settled(net, [[guest, ips]]);
      for (const [node, one] of [
        [a, guest],
        [b, target],
      ] as const)
        await deleted(node, one);
      await scene.settled(net, [[guest, ips]]);
    },
  );

  test.each(["after-reserve", "after-publish"])(
    "at %s, until pod and node are gone and another has the address: nobody is told it",
    async (point) => {
      const net = await scene.net(`passed-${point}`, "10.24.0.0/30", { cooldownSeconds: 0 });
      const [, b] = nodes as [NodeDaemon, NodeDaemon];
      const c = await scene.node(`stalled-${point}`, {
        args: ["--add-deadline-ms", String(DEADLINE_MS)],
        env: { HOLDFAST_KILL_POINT: `${point}:1:SIGSTOP` },
      });
      const guests = [await scene.pod(net, b.name), await scene.pod(net, b.name)];
      const first = await added(b, guests[0] as Guest);
      const lost = await scene.pod(net, c.name);
      const pending = c.add(lost.pod, lost.options);
      await until(() => isStopped(c), `the stop at ${point}`);
      await scene.kubevirt.removePod(lost.pod);
      await scene.kubevirt.deleteNode(c.name);
      await until(
        async () => (await scene.bound(net)).length === 1,
        "the release of what the lost pod reserved",
      );
      const second = await addedInTheEnd(b, guests[1] as Guest);
      await pause(DEADLINE_MS);
      c.daemon.process.kill("SIGCONT");
      const answer = await pending;
      expect(answer.code, `given twice: ${answer.stdout}`).not.toBe(0);
      await deleted(c, lost);
      const held = [
        [guests[0] as Guest, first],
        [guests[1] as Guest, second],
      ] as const;
      await scene.settled(net, held);
      for (const [guest] of held) await deleted(b, guest);
    },
  );
});

function isStopped({ daemon }: NodeDaemon): boolean {
  return /^State:\s+T/m.test(readFileSync(`/proc/${daemon.process.pid}/status`, "utf8"));
}

/** Several passes of the controller, whose grace is a second. */
async function sweeps(count: number): Promise<void> {
  await pause(count * 1_000);
}
