import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { until } from "../harness/wait.ts";
import { ipsOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const NODES = Array.from({ length: 8 }, (_, index) => `node-${index}`);
/** Runtimes of one node begin a few sandboxes at once, not hundreds. */
const TOGETHER = 32;
/** Only ends what hangs: hundreds of processes share the machine with others. */
const LIMIT_MS = 240_000;

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: NODES });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

/** The results of `work` for each item, some at a time. */
async function each<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = [...items.entries()];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      results[next[0]] = await work(next[1]);
    }
  };
  await Promise.all(Array.from({ length: TOGETHER }, worker));
  return results;
}

/** Pods on all nodes in turn. */
function podsOf(network: Network, count: number): Promise<KubeObject[]> {
  const networks = [{ name: network.name }];
  return each(
    Array.from({ length: count }, (_, index) => index),
    (index) => {
      const node = NODES[index % NODES.length] as string;
      return world.kubevirt.createPod(NAMESPACE, `${network.name}-${index}`, { node, networks, phase: null });
    },
  );
}

async function bound(network: Network): Promise<string[]> {
  const all = await world.allocations(network);
  return all.filter(({ status }) => status.state === "Bound").map(({ spec }) => spec.address);
}

/** Everybody asks; who was given what, and who was refused because the network is full. */
async function race(network: Network, pods: readonly KubeObject[]) {
  const given = new Map<KubeObject, string[]>();
  const refused: KubeObject[] = [];
  const ask = async (pod: KubeObject) => {
    const answer = await world.add(pod, network);
    if (answer.code === 0) return given.set(pod, ipsOf(answer));
    expect(answer.json(), answer.stdout).toMatchObject({ code: 11 });
    if (answer.json().msg.includes("no free address")) return refused.push(pod);
    // On a machine that is busy the API server may be slower than an ADD waits: the runtime tries again.
    expect(answer.json().msg).toContain("the API server gave no answer");
    return null;
  };
  await each(pods, (pod) => until(async () => (await ask(pod)) !== null, `an answer for ${pod.metadata.name}`));
  return { given, refused };
}

test.each([
  ["crowd", { subnets: "10.0.0.0/25" }, 160, 126],
  ["crowd-gateway", { subnets: "10.0.0.0/26", gateway: "10.0.0.1", cooldownSeconds: 1 }, 80, 61],
] as const)(
  "pods on eight nodes that race for a network get each address once, and fill it: %s",
  async (name, ipam, count, size) => {
    const network = await world.network(name, ipam);
    const pods = await podsOf(network, count);
    const { given, refused } = await race(network, pods);
    expect(given.size).toBe(size);
    expect(new Set([...given.values()].flat()).size).toBe(size);
    expect(refused).toHaveLength(count - size);
    expect(new Set(await bound(network))).toEqual(new Set([...given.values()].flat()));
    await world.settled();

    // As many end as wait: each of these is served, wherever the address was.
    const leaving = [...given.keys()].slice(0, refused.length);
    await each(leaving, (pod) => world.del(pod, network));
    const waiting = new Set(refused);
    await until(
      async () => {
        const again = await race(network, [...waiting]);
        for (const pod of again.given.keys()) waiting.delete(pod);
        return waiting.size === 0;
      },
      "all who wait to be served",
      LIMIT_MS,
    );
    await until(async () => (await bound(network)).length === size, "the network to be full again");
  },
  2 * LIMIT_MS,
);

test("refused pods of a dual-stack network with one full family keep no address of the other", async () => {
  const network = await world.network("half-full", { subnets: "10.0.0.0/29,fd00::/64" });
  const { given, refused } = await race(network, await podsOf(network, 40));
  expect(given.size).toBe(6);
  expect(refused).toHaveLength(34);
  const all = [...given.values()].flat();
  expect(new Set(all).size).toBe(12);
  await until(async () => (await bound(network)).length === 12, "what was not answered to be given back");
  expect(new Set(await bound(network))).toEqual(new Set(all));
});

test("claims of many VMs race for one network from all nodes", async () => {
  const network = await world.network("claims", { subnets: "10.0.0.0/27" });
  const claims = Array.from({ length: 40 }, (_, index) => `claim-${index}`);
  await each(claims, (claim) => world.claim(claim, "claims"));
  const pods = await each(claims, (claim) =>
    world.pod(`of-${claim}`, NODES[Number(claim.slice(6)) % 8] as string, network, {
      "ipam-claim-reference": claim,
    }),
  );
  const { given, refused } = await race(network, pods);
  expect(given.size).toBe(30);
  expect(new Set([...given.values()].flat()).size).toBe(30);
  for (const pod of refused) {
    const claim = pod.metadata.name.slice("of-".length);
    await world.untilReason(claim, "SubnetExhausted");
    expect((await world.readClaim(claim)).status.ips).toEqual([]);
  }
  for (const [pod, ips] of given) {
    expect((await world.readClaim(pod.metadata.name.slice("of-".length))).status.ips).toEqual(ips);
  }
  await until(async () => (await bound(network)).length === 30, "nothing else to be held");
});
