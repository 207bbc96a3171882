import { rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Controller } from "../../controller/controller.ts";
import { loadControllerSettings } from "../../controller/settings.ts";
import { Daemon } from "../../daemon/daemon.ts";
import { loadDaemonSettings } from "../../daemon/settings.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { MetadataServer } from "../../metadata/server/metadata-server.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { type Clock, parseTime, systemClock } from "../../platform/time.ts";
import { TestCluster } from "../harness/cluster.ts";
import { call, newFolder, runShim, until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubeVirt } from "../harness/kubevirt.ts";
import { cniArgs } from "../harness/node.ts";
import { configOf, ipsOf } from "./scenario-parts.ts";

// Everything of a cluster in this one process: what a process shared would be shared by all of them.

const YEAR_MS = 365 * 24 * 3_600_000;
const CONFIG = configOf("blue", { subnets: "10.0.0.0/24", metadata: true });
const log = pino({ level: "silent" });

interface Node {
  readonly name: string;
  readonly clock: Clock;
  readonly folder: string;
  readonly socket: string;
  readonly daemon: Daemon;
}

let cluster: TestCluster;
let kube: KubeVirt;
let here: Node;
let there: Node;
let controller: Controller;
let metadata: MetadataServer;
let metadataFolder: string;

beforeAll(async () => {
  cluster = await TestCluster.start();
  kube = new KubeVirt(cluster.api);
  await kube.createNamespace("shop");
  await kube.createNad("shop", "blue", CONFIG);
  const settings = {
    kubeconfig: cluster.kubeconfig("holdfast-controller"),
    metricsAddress: "127.0.0.1:0",
    sweepIntervalSeconds: "1",
  };
  controller = new Controller(loadControllerSettings(settings, {}), log, systemClock);
  await controller.start();
  here = await startNode("here", 0);
  // A clock that is wrong is one node's affair.
  there = await startNode("there", YEAR_MS);
  metadataFolder = newFolder();
  metadata = await startMetadata(here);
});
afterAll(async () => {
  await metadata?.stop();
  await there?.daemon.stop();
  await here?.daemon.stop();
  await controller?.stop();
  await cluster?.stop();
  for (const folder of [here?.folder, there?.folder, metadataFolder])
    if (folder) rmSync(folder, { recursive: true, force: true });
});

test("two daemons, a controller and a metadata server share a process and nothing else", async () => {
  const pods = await Promise.all([startPod("a", here), startPod("b", there)]);
  const answers = await Promise.all([cni("ADD", here, pods[0]), cni("ADD", there, pods[1])]);
  const [first = "", second = ""] = answers.flatMap((answer) => ipsOf(answer));
  expect(first).not.toBe(second);

  // Journals, counters and clocks are each one's own.
  expect(await knownTo(here)).toEqual(["a"]);
  expect(await knownTo(there)).toEqual(["b"]);
  expect(await addsCounted(here)).toBe(1);
  expect(await addsCounted(there)).toBe(1);
  const since = (await cluster.api.list(ALLOCATIONS_PATH)).map(({ spec, status }) => [
    spec.address,
    parseTime(status.since) > systemClock.wallMs() + YEAR_MS / 2,
  ]);
  expect(since.sort()).toEqual(
    [
      [first, false],
      [second, true],
    ].sort(),
  );

  // The metadata server asks the daemon that it was told of.
  expect(await guestStatus(first)).toBe(200);
  expect(await guestStatus(second)).toBe(404);
});

test("one daemon ends, and the other goes on", async () => {
  const pod = await startPod("c", here);
  await there.daemon.stop();
  expect((await cni("ADD", here, pod)).code).toBe(0);
  expect((await call(here.socket, "GET", "/readyz")).status).toBe(200);
  expect((await cni("ADD", there, pod)).code).not.toBe(0);
  there = { ...there, daemon: await startDaemon(there) };
  expect(await knownTo(there)).toEqual(["b"]);
});

test("the controller gives back what a pod had", async () => {
  const pod = await startPod("d", here);
  const [address = ""] = ipsOf(await cni("ADD", here, pod));
  await kube.finishPod(pod);
  expect((await cni("DEL", here, pod)).code).toBe(0);
  const stateOf = async () =>
    (await cluster.api.list(ALLOCATIONS_PATH)).find(({ spec }) => spec.address === address)?.status.state;
  await until(async () => (await stateOf()) !== "Bound", "the release");
});

async function startNode(name: string, aheadMs: number): Promise<Node> {
  const folder = newFolder();
  const clock: Clock = { ...systemClock, wallMs: () => systemClock.wallMs() + aheadMs };
  const place = { name, clock, folder, socket: join(folder, "s.sock") };
  return { ...place, daemon: await startDaemon(place) };
}

async function startDaemon({ name, clock, folder, socket }: Omit<Node, "daemon">): Promise<Daemon> {
  const flags = {
    state: join(folder, "state"),
    socket,
    node: name,
    kubeconfig: cluster.kubeconfig("holdfast-node"),
    metadata: "off",
  };
  const daemon = await Daemon.create(loadDaemonSettings(flags, {}), log, clock, "0.0.0");
  await daemon.start();
  await until(async () => (await call(socket, "GET", "/readyz")).status === 200, `node ${name}`);
  return daemon;
}

async function startMetadata(node: Node): Promise<MetadataServer> {
  const flags = {
    metadataSocket: join(metadataFolder, "m.sock"),
    identitySocket: join(node.folder, "identity.sock"),
    state: join(metadataFolder, "state"),
    metricsAddress: "off",
    logLevel: "silent",
  };
  const server = await MetadataServer.create(loadMetadataSettings(flags, {}), log, node.clock);
  await server.start();
  return server;
}

function startPod(name: string, node: Node): Promise<KubeObject> {
  return kube.createPod("shop", name, { node: node.name, networks: [{ name: "blue" }] });
}

function cni(verb: string, node: Node, pod: KubeObject) {
  const containerId = `sandbox-${pod.metadata.uid}`;
  return runShim(verb, containerId, {
    config: CONFIG,
    ifname: "net1",
    args: cniArgs(pod, containerId),
    socket: node.socket,
    spool: join(node.folder, "state", "spool"),
  });
}

/** Names of the pods of which the node's own journal has attachments. */
async function knownTo({ socket }: Node): Promise<string[]> {
  const { items } = (await call(socket, "GET", "/v1/history?limit=100")).json();
  return items.map(({ pod }: KubeObject) => pod?.name ?? "");
}

async function addsCounted({ socket }: Node): Promise<number> {
  const { body } = await call(socket, "GET", "/metrics");
  const count = /^holdfast_cni_request_duration_seconds_count\{verb="ADD",outcome="ok"\} (\d+)$/m.exec(body);
  return Number(count?.[1] ?? 0);
}

/** What the metadata server answers the guest behind an address, as a listener passes it on. */
function guestStatus(address: string): Promise<number> {
  const [source = ""] = address.split("/");
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        socketPath: join(metadataFolder, "m.sock"),
        path: "/openstack/latest/meta_data.json",
        headers: { "x-holdfast-network": "blue", "x-holdfast-source": source },
        agent: false,
      },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      },
    );
    sent.on("error", reject);
    sent.end();
  });
}
