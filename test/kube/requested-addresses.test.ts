/**
 * VMs that ask for addresses, over a real API server: a claim that moves while daemons die, races, and imports by the
 * hundred.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { until } from "../harness/wait.ts";
import { died } from "../harness/world/guests.ts";
import { interfaceOf, KUBEVIRT } from "../harness/world/kubevirt-objects.ts";
import { ipsOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const LOGICAL = "nic";
const NIC = { ifname: interfaceOf(LOGICAL) };
/** How a refusal ends. */
const ASKS = `annotation network.kubevirt.io/addresses, ${LOGICAL} asks for it`;
/** Runtimes begin a few sandboxes at once. */
const TOGETHER = 16;
/** Only ends what hangs: thousands of processes share the machine with others. */
const LIMIT_MS = 240_000;

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: ["node-a", "node-b"], controller: {} });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const claimOf = (vm: Vm): Promise<KubeObject> => world.readClaim(claimName(vm, LOGICAL));

/** Sooner or later: the controller brings the list in line with what the claim has. */
async function lists(vm: Vm, ips: readonly string[]): Promise<void> {
  let said = "";
  const isSaid = async () => {
    said = JSON.stringify((await claimOf(vm)).status.ips);
    return said === JSON.stringify(ips);
  };
  await until(isSaid, () => `the claim to list ${ips.join()}; it lists ${said}`);
}

async function vmThatAsks(name: string, network: Network, ...addresses: readonly string[]): Promise<Vm> {
  const networks = [{ logical: LOGICAL, nad: network.name, network: network.name }];
  return asking(await world.kubevirt.createVm(NAMESPACE, name, networks), ...addresses);
}

/** From its next start on. */
function asking(vm: Vm, ...addresses: readonly string[]): Vm {
  const annotations = { "network.kubevirt.io/addresses": JSON.stringify({ [LOGICAL]: addresses }) };
  return { ...vm, annotations };
}

async function stopped(vm: Vm, pod: KubeObject, network: Network): Promise<void> {
  await world.kubevirt.stopVm(vm, { remove: false });
  await world.del(pod, network, NIC);
  await world.kubevirt.removePod(pod);
}

/** The results of `work` for each item, some at a time. */
async function each<T, R>(items: readonly T[], work: (item: T, index: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = [...items.entries()];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift())
      results[next[0]] = await work(next[1], next[0]);
  };
  await Promise.all(Array.from({ length: TOGETHER }, worker));
  return results;
}

/** An answer of the network: on a machine that is busy the API server may be slower than an ADD waits. */
async function answered(pod: KubeObject, network: Network) {
  for (;;) {
    const answer = await world.add(pod, network, NIC);
    if (answer.code === 0 || answer.json().code !== 11) return answer;
  }
}

describe("a claim that moves, and a daemon that is killed", () => {
  const POINTS = ["after-intent", "after-reserve", "before-publish", "after-publish", "before-answer"];
  let blue: Network;
  beforeAll(async () => {
    blue = await world.network("blue", { subnets: "10.1.0.0/24,fd01::/64" });
  });

  /** A stopped VM that had .10, and asks for .20 now: its next launcher is on node-b, whose daemon dies there. */
  async function killedAt(point: string, name: string, [had, wants]: readonly [string, string]) {
    const vm = await vmThatAsks(name, blue, had);
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    const before = await world.given(pod, blue, NIC);
    expect(before[0]).toBe(`${had}/24`);
    await stopped(vm, pod, blue);
    const b = world.node("node-b");
    await b.restart("SIGTERM", { env: { HOLDFAST_KILL_POINT: point } });
    const changed = asking(vm, wants);
    const { pod: next } = await world.kubevirt.startVm(changed, "node-b");
    await until(
      async () => {
        const answer = await b.add(next, { config: blue.config, ...NIC });
        expect(answer.code, `answered although killed: ${answer.stdout}`).not.toBe(0);
        return b.process.signalCode !== null;
      },
      () => `the kill; log: ${b.log}`,
    );
    await died(b);
    return { vm, changed, next, before };
  }

  test.each(POINTS)("at %s: the repeated ADD moves it", async (point) => {
    const at = POINTS.indexOf(point);
    const asked = [`10.1.0.${10 + at}`, `10.1.0.${20 + at}`] as const;
    const { vm, next, before } = await killedAt(point, `killed-${point}`, asked);
    await world.node("node-b").restart();
    const now = [`${asked[1]}/24`, before[1] as string];
    expect(await world.given(next, blue, NIC)).toEqual(now);
    await world.becomes(blue, before[0] as string, "Cooling");
    await lists(vm, now);
    await world.untilUsers(blue, `${asked[1]}/24`, next);
  });

  test.each(POINTS)("at %s, and the edit is taken back: what it had", async (point) => {
    const at = POINTS.indexOf(point);
    const asked = [`10.1.0.${30 + at}`, `10.1.0.${40 + at}`] as const;
    const { vm, changed, next, before } = await killedAt(point, `back-${point}`, asked);
    await world.node("node-b").restart();
    await stopped(changed, next, blue);
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    expect(await world.given(pod, blue, NIC)).toEqual(before);
    const reserved = (await world.bound(blue)).filter((one) => one.startsWith(`${asked[1]}/`));
    if (reserved.length > 0) await world.becomes(blue, `${asked[1]}/24`, "Cooling");
    await lists(vm, before);
  });
});

test(
  "an API server that is restored to before the move: what the VM runs with is put back, and stays",
  async () => {
    const network = await world.network("restored", { subnets: "10.2.0.0/24" });
    const vm = await vmThatAsks("restored", network, "10.2.0.10");
    const { pod } = await world.kubevirt.startVm(vm, "node-a");
    await world.given(pod, network, NIC);
    await stopped(vm, pod, network);
    await world.untilUsers(network, "10.2.0.10/24");
    const changed = asking(vm, "10.2.0.20");
    const { pod: next } = await world.kubevirt.startVm(changed, "node-b");
    const saved = await world.server.saveEtcd();
    expect(await world.given(next, network, NIC)).toEqual(["10.2.0.20/24"]);
    await world.server.restoreEtcd(saved);
    await world.untilUsers(network, "10.2.0.20/24", next);
    // Nobody else gets either meanwhile.
    const thief = await vmThatAsks("thief", network, "10.2.0.20");
    const { pod: asks } = await world.kubevirt.startVm(thief, "node-a");
    expect((await answered(asks, network)).json()).toMatchObject({ code: 120 });
    const target = await world.kubevirt.migrate(changed, "node-a");
    const answer = await answered(target, network);
    expect(ipsOf(answer), answer.stdout).toEqual(["10.2.0.20/24"]);
    await world.until(
      async () => (await claimOf(vm)).status.ips.join() === "10.2.0.20/24",
      "the claim to list what its VM runs with",
    );
  },
  LIMIT_MS,
);

test(
  "two VMs that ask for one address at the same instant on two nodes: one has it, the other is told who",
  async () => {
    const network = await world.network("race", { subnets: "10.3.0.0/16" });
    const rounds = Array.from({ length: 200 }, (_, at) => at);
    const outcomes = await each(rounds, async (at) => {
      const address = `10.3.1.${at}`;
      const started = await Promise.all(
        ["a", "b"].map(async (side) => {
          const vm = await vmThatAsks(`race-${at}-${side}`, network, address);
          const { pod } = await world.kubevirt.startVm(vm, `node-${side}`);
          return { vm, pod };
        }),
      );
      const answers = await Promise.all(started.map(({ pod }) => answered(pod, network)));
      const winners = answers.filter(({ code }) => code === 0);
      expect(winners.map(ipsOf), address).toEqual([[`${address}/16`]]);
      const winner = answers.findIndex(({ code }) => code === 0);
      const name = claimName(started[winner]?.vm as Vm, LOGICAL);
      const loser = answers[1 - winner]?.json();
      expect(loser).toMatchObject({
        code: 120,
        msg: `${address} is held by claim ${NAMESPACE}/${name} on network race; ${ASKS}`,
      });
      return winner;
    });
    expect(outcomes).toHaveLength(200);
  },
  LIMIT_MS,
);

test(
  "500 VMs are imported with their addresses, 20 of which are taken: 480 have theirs, 20 are told by whom",
  async () => {
    const network = await world.network("import", { subnets: "10.4.0.0/16" });
    const numbers = Array.from({ length: 500 }, (_, at) => at);
    const addressOf = (at: number) => `10.4.${1 + Math.floor(at / 250)}.${at % 250}`;
    const taken = numbers.filter((at) => at % 25 === 7);
    const holders = new Map<number, string>();
    await each(taken, async (at) => {
      const vm = await vmThatAsks(`holder-${at}`, network, addressOf(at));
      const { pod } = await world.kubevirt.startVm(vm, "node-a");
      expect(ipsOf(await answered(pod, network))).toEqual([`${addressOf(at)}/16`]);
      holders.set(at, claimName(vm, LOGICAL));
    });
    const before = new Set(await world.bound(network));
    expect(before.size).toBe(20);
    const pods = await each(numbers, async (at) => {
      const vm = await vmThatAsks(`import-${at}`, network, addressOf(at));
      return (await world.kubevirt.startVm(vm, at % 2 === 0 ? "node-a" : "node-b")).pod;
    });
    const answers = await each(pods, (pod) => answered(pod, network));
    for (const [at, answer] of answers.entries()) {
      if (!holders.has(at)) expect(ipsOf(answer), answer.stdout).toEqual([`${addressOf(at)}/16`]);
      else
        expect(answer.json()).toMatchObject({
          code: 120,
          msg: `${addressOf(at)} is held by claim ${NAMESPACE}/${holders.get(at)} on network import; ${ASKS}`,
        });
    }
    const after = await world.bound(network);
    expect(after).toHaveLength(500);
    for (const one of before) expect(after).toContain(one);
    const all = await world.allocations(network);
    expect(all.filter(({ status }) => status.state !== "Bound")).toEqual([]);
  },
  LIMIT_MS,
);

test(
  "a list of reservations on an IPNetwork, free and plan, from the objects of a real server",
  async () => {
    const green = await world.network("green-reserved", { subnets: "10.7.0.0/20" });
    const [mac, ip] = ["02:00:00:00:07:01", "10.7.3.77"];
    const others = Array.from({ length: 3_000 }, (_, at) => ({
      mac: `02:00:00:01:${hex(at >> 8)}:${hex(at & 255)}`,
      ips: [`10.7.${4 + (at >> 8)}.${at & 255}`],
    })).filter(({ ips }) => ips[0] !== "10.7.15.255");
    await world.given(await world.pod("first", "node-a", green), green);
    const annotations = { "ipam.holdfast.dev/reservations": JSON.stringify([{ mac, ips: [ip] }, ...others]) };
    const path = `/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/${green.name}`;
    await world.cluster.api.patch(path, { metadata: { annotations } });
    // node-b has not read the network yet; node-a reads it again after some seconds.
    expect(await world.given(await world.pod("with-mac", "node-b", green, { mac }), green)).toEqual([`${ip}/20`]);
    const asks = (at: number, from: string) => world.pod(`asks-${at}`, from, green, { ips: ["10.7.4.9"] });
    let count = 0;
    await until(async () => {
      count += 1;
      const pod = await asks(count, "node-a");
      const answer = await world.add(pod, green);
      await world.del(pod, green);
      return answer.code !== 0 && answer.json().code === 132;
    }, "node-a to know the reservations");
    const admin = ["--kubeconfig", world.cluster.kubeconfig("admin")];
    const free = JSON.parse((await world.cli("free", green.name, ...admin, "-o", "json")).stdout);
    const size = free.ranges
      .flatMap(({ runs }: { runs: { size: string }[] }) => runs)
      .reduce((sum: bigint, one: { size: string }) => sum + BigInt(one.size), 0n);
    // Of 4094, two have pods; what is reserved counts as not free.
    expect(size).toBeLessThanOrEqual(4094n - BigInt(others.length) - 2n);
    const vm = await vmThatAsks("planned", green, ip);
    const template = {
      metadata: { annotations: vm.annotations },
      spec: {
        networks: [{ name: LOGICAL, multus: { networkName: green.name } }],
        domain: { devices: { interfaces: [{ name: LOGICAL, bridge: {} }] } },
      },
    };
    await world.cluster.api.patch(pathOf(NAMESPACE, "virtualmachines", vm.name, KUBEVIRT), {
      spec: { template },
    });
    const plan = await world.cli("plan", ...admin, "-n", NAMESPACE);
    expect(plan.stdout).toMatch(
      new RegExp(`${NAMESPACE}/planned +${LOGICAL} +${ip.replaceAll(".", "\\.")} +${green.name} +${ip} `),
    );
    expect(plan.code).toBe(1);
  },
  LIMIT_MS,
);

const hex = (value: number): string => value.toString(16).padStart(2, "0");
