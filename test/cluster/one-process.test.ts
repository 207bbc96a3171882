import { afterAll, beforeAll, expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { type Clock, parseTime } from "../../platform/time.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { NodeDaemon } from "../harness/node.ts";
import type { MetadataHere } from "../harness/world/metadata-here.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

// Everything of a cluster in this one process, over HTTP: what a process shared would be shared by all of them.

const YEAR_MS = 365 * 24 * 3_600_000;

let world: World;
let blue: Network;
let here: NodeDaemon;
let there: NodeDaemon;
let metadata: MetadataHere;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  blue = await world.network("blue", { metadata: true });
  await world.startController({ kubeconfig: world.cluster.kubeconfig("holdfast-controller") });
  const args = ["--metadata", "off"];
  const overHttp = () => ({ args, process: false, kubeconfig: world.cluster.kubeconfig("holdfast-node") });
  here = await world.startNode("here", overHttp());
  // A clock that is wrong is one node's affair.
  there = await world.startNode("there", { ...overHttp(), clock: aYearAhead(world.cluster.time.clock) });
  metadata = await world.startMetadata(here);
});
afterAll(() => world?.stop());

function aYearAhead(clock: Clock): Clock {
  return {
    monotonicMs: () => clock.monotonicMs(),
    wallMs: () => clock.wallMs() + YEAR_MS,
    timer: (ms, fire) => clock.timer(ms, fire),
    immediate: (fire) => clock.immediate(fire),
    random: () => clock.random(),
    randomBytes: (count) => clock.randomBytes(count),
  };
}

test("two daemons, a controller and a metadata server share a process and nothing else", async () => {
  const pods = await Promise.all([startPod("a", here), startPod("b", there)]);
  const answers = await Promise.all([cni("add", here, pods[0]), cni("add", there, pods[1])]);
  const [first = "", second = ""] = answers.flatMap((answer) => ipsOf(answer));
  expect(first).not.toBe(second);

  // Journals, counters and clocks are each one's own.
  expect(await knownTo(here)).toEqual(["a"]);
  expect(await knownTo(there)).toEqual(["b"]);
  expect(await addsCounted(here)).toBe(1);
  expect(await addsCounted(there)).toBe(1);
  const since = (await world.cluster.api.list(ALLOCATIONS_PATH)).map(({ spec, status }) => [
    spec.address,
    parseTime(status.since) > world.cluster.time.clock.wallMs() + YEAR_MS / 2,
  ]);
  expect(since.sort()).toEqual(
    [
      [first, false],
      [second, true],
    ].sort(),
  );

  // The metadata server asks the daemon that it was told of.
  expect(await metadata.statusFor(blue, pods[0], "net1")).toBe(200);
  expect(await metadata.statusFor(blue, pods[1], "net1")).toBe(404);
});

test("a daemon keeps serving when another one in its process stops", async () => {
  const pod = await startPod("c", here);
  await there.daemon.end();
  expect((await cni("add", here, pod)).code).toBe(0);
  expect((await here.daemon.get("/readyz")).status).toBe(200);
  expect((await cni("add", there, pod)).code).not.toBe(0);
  await there.restart();
  expect(await knownTo(there)).toEqual(["b"]);
});

test("the controller releases the address of a finished pod", async () => {
  const pod = await startPod("d", here);
  const [address = ""] = ipsOf(await cni("add", here, pod));
  await world.kubevirt.finishPod(pod);
  expect((await cni("del", here, pod)).code).toBe(0);
  const stateOf = async () =>
    (await world.cluster.api.list(ALLOCATIONS_PATH)).find(({ spec }) => spec.address === address)?.status.state;
  await world.until(async () => (await stateOf()) !== "Bound", "the release");
});

function startPod(name: string, node: NodeDaemon): Promise<KubeObject> {
  return world.pod(name, node.name, blue);
}

const cni = (verb: "add" | "del", node: NodeDaemon, pod: KubeObject) => node[verb](pod, { config: blue.config });

/** Names of the pods of which the node's own journal has attachments. */
async function knownTo({ daemon }: NodeDaemon): Promise<string[]> {
  const { items } = (await daemon.get("/v1/history?limit=100")).json();
  return items.map(({ pod }: KubeObject) => pod?.name ?? "");
}

async function addsCounted({ daemon }: NodeDaemon): Promise<number> {
  const { body } = await daemon.get("/metrics");
  const count = /^holdfast_cni_request_duration_seconds_count\{verb="ADD",outcome="ok"\} (\d+)$/m.exec(body);
  return Number(count?.[1] ?? 0);
}
