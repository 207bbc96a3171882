/**
 * Controllers that are killed: nodes go on without them, nothing is freed early, and what is published is right
 * afterwards.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, type IPNetwork } from "../../kube/objects.ts";
import { readPublishedSpace } from "../../kube/views/published-space.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { until } from "../harness/wait.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const NODES = Array.from({ length: 4 }, (_, index) => `node-${index}`);
const TOGETHER = 16;
/** For which no controller runs. */
const ADDS_ALONE = 1_000;
const LIMIT_MS = 240_000;

let world: World;
const controllers: RunningController[] = [];

interface RunningController {
  readonly process: ProductProcess;
  leads(): Promise<boolean>;
}

beforeAll(async () => {
  world = await World.start({ api: "server", nodes: NODES });
});
afterAll(async () => {
  for (const { process } of controllers) await process.end("SIGKILL");
  await world?.stop();
});

async function startController(): Promise<RunningController> {
  const [port = 0] = await freePorts(1);
  const process = new ProductProcess([
    ...["controller", "--kubeconfig", world.cluster.kubeconfig("holdfast-controller")],
    ...["--metrics-address", `127.0.0.1:${port}`],
    ...["--sweep-interval-seconds", "1", "--sweep-grace-seconds", "1", "--cooling-keep-seconds", "0"],
  ]);
  const page = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => null);
    return answer?.status === 200 ? answer.text() : null;
  };
  const leads = async () => (await page("/metrics"))?.includes("\nholdfast_controller_leader 1") === true;
  const controller = { process, leads };
  controllers.push(controller);
  await process.until(async () => (await page("/readyz")) !== null, "to be ready");
  return controller;
}

/** ADDs of new pods, on all nodes in turn; each must be answered with an address. */
async function adds(network: Network, count: number, each: (done: number) => Promise<void> = async () => {}) {
  const pods: KubeObject[] = [];
  await severalAtOnce(Array.from({ length: count }).keys(), TOGETHER, async (index) => {
    const node = NODES[index % NODES.length] as string;
    const name = `${network.name}-${pods.length}-${index}-${count}`;
    const networks = [{ name: network.name }];
    const pod = await world.kubevirt.createPod(NAMESPACE, name, { node, networks, phase: null });
    // A machine that is busy may make the API server slower than an ADD waits: the runtime tries again.
    await until(async () => (await world.add(pod, network)).code === 0, `an address for ${name}`, LIMIT_MS);
    pods.push(pod);
    await each(pods.length);
  });
  return pods;
}

/** What is published is what there is, and so are the counts. */
async function untilPublished(network: Network): Promise<void> {
  let [shown, there] = ["", ""];
  const isSame = async () => {
    const allocations = await world.allocations(network);
    const object = (await world.networkObject(network.name)) as unknown as IPNetwork;
    const space = readPublishedSpace(object);
    const of = (state: string) =>
      allocations
        .filter(({ status }) => status.state === state)
        .map(({ spec }) => parseInterfaceAddress(spec.address).address.value);
    const [bound, cooling] = [of("Bound"), of("Cooling")];
    const published = space?.cooling.map(({ value }) => value) ?? [];
    shown = `${space?.used[4].size} ${published.length} ${object.status?.allocated} ${object.status?.cooling}`;
    there = `${bound.length} ${cooling.length} ${bound.length} ${cooling.length}`;
    const isThere = bound.every((value) => space?.used[4].contains(value));
    return shown === there && isThere && cooling.every((value) => published.includes(value));
  };
  await until(isSame, () => `${shown} to be ${there}`, LIMIT_MS);
}

test(
  "ADDs go on and nothing is freed while controllers are killed, one by one, and the next one publishes what there is",
  async () => {
    const [first, second] = [await startController(), await startController()];
    const network = await world.importedNetwork("known", { subnets: "10.0.0.0/20", cooldownSeconds: 2 });
    await until(async () => (await first.leads()) || (await second.leads()), "a leader");
    const [leader, other] = (await first.leads()) ? [first, second] : [second, first];
    // In the middle of what it publishes each second.
    const before = await adds(network, 100, async (done) => {
      if (done === 50) await leader.process.end("SIGKILL");
    });
    await until(() => other.leads(), "the other one to lead", LIMIT_MS);
    await untilPublished(network);
    await other.process.end("SIGKILL");

    const ended = before.slice(0, 20);
    for (const pod of ended) await world.del(pod, network);
    const count = async (state: string) =>
      (await world.allocations(network)).filter(({ status }) => status.state === state).length;
    await until(async () => (await count("Cooling")) === ended.length, "the releases");
    const used = async () => readPublishedSpace((await world.networkObject("known")) as never)?.used[4].size;
    const stale = await used();
    await adds(network, ADDS_ALONE);
    expect(await used()).toBe(stale);
    // Some were given again; nothing of what is in use is anybody else's, which `settled` finds below.
    expect(await count("Bound")).toBe(before.length - ended.length + ADDS_ALONE);
    await world.settled();

    await startController();
    await untilPublished(network);
    await until(async () => (await count("Cooling")) === 0, "what has cooled down to be deleted", LIMIT_MS);
    await untilPublished(network);
    await world.settled();
  },
  2 * LIMIT_MS,
);

test("what somebody deletes by force is put back by the controller, as it was", async () => {
  const network = await world.importedNetwork("taken", { subnets: "10.1.0.0/24" });
  await adds(network, 2);
  const before = await world.allocations(network);
  const [first, second] = before.map(({ metadata }) => `${ALLOCATIONS_PATH}/${metadata.name}`) as [string, string];
  const { api } = world.cluster;
  // Either way that people know.
  await api.patch(first, { metadata: { finalizers: null } });
  await api.delete(first);
  await api.delete(second);
  await api.patch(second, { metadata: { finalizers: null } });
  const uids = new Set(before.map(({ metadata }) => metadata.uid));
  await until(async () => {
    const now = await world.allocations(network);
    return now.length === 2 && now.every(({ metadata }) => !uids.has(metadata.uid));
  }, "both to be back");
  const parts = (all: readonly KubeObject[]) =>
    all.map(({ spec, status, metadata: { labels, finalizers } }) => ({ spec, status, labels, finalizers }));
  expect(parts(await world.allocations(network))).toEqual(parts(before));
  await world.settled();
});
