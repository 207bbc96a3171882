import { Agent, get as httpsGet } from "node:https";
import { formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import {
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  NADS_PATH,
  NETWORKS_PATH,
  NODES_PATH,
  namespacedPath,
  PODS_PATH,
} from "../../kube/objects.ts";
import type { ClusterUser, TestCluster } from "../../test/harness/cluster.ts";
import type { NodeDaemon } from "../../test/harness/node.ts";
import { atMost, type Line, type Measurement, number, told } from "../line.ts";
import { median } from "../statistics.ts";
import { memoryBytesOf } from "../workbench.ts";
import { BenchController, turnMsIn } from "./bench-controller.ts";
import { fill, restartApiServer, SINCE, stranger, tenth } from "./fill.ts";
import { KubeBench, NAMESPACE, NETWORK, sleep } from "./kube-bench.ts";
import { inParallel } from "./parallel.ts";

const OBJECTS = 10_000;
const NODES = 10;
const MORE_OBJECTS = 100_000;
const STARTS = 3;
const PREFIX_LENGTH = 8;
const CREATED_AT_ONCE = 32;
/** As in fill: the API server's memory. */
const MADE_UNTIL_RESTART = 5_000;
/** Garbage of the start is gone by then, and what begins only after readiness has been done. */
const SETTLE_MS = 3_000;

const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/** A list as it is asked for: its path with the query. `metadata`: no more of each object. */
interface List {
  readonly path: string;
  readonly metadata?: boolean;
}

interface Start {
  readonly readyMs: number;
  readonly longestTurnMs: number;
  readonly rssBytes: number;
  readonly peakBytes: number;
}

/**
 * A daemon and a controller that start in a cluster of 10,000 claims, pods and allocations; memory with 100,000
 * allocations.
 */
export const kubeStart: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async (bench) => {
    const { cluster } = bench;
    // The first start also looks for addresses from before Holdfast; later ones find that done.
    const node = await bench.node();
    const empty = {
      daemon: await starts(() => startDaemon(node)),
      controller: await starts(() => startController(cluster)),
    };
    await node.daemon.end();
    await populate(bench);
    const sides = {
      daemon: await starts(() => startDaemon(node)),
      controller: await starts(() => startController(cluster)),
      rawDaemon: await fetchedMs(cluster, "holdfast-node", daemonLists(node.name)),
      rawController: await fetchedMs(cluster, "holdfast-controller", CONTROLLER_LISTS),
    };
    const more = Array.from({ length: MORE_OBJECTS - OBJECTS }, (_, index) => OBJECTS + index + 1);
    await node.daemon.end();
    const entries = more.map((index) => ({ index, holder: stranger(index) }));
    await fill(cluster, NETWORK, PREFIX_LENGTH, entries);
    const full = {
      daemon: await starts(() => startDaemon(node)),
      controller: await starts(() => startController(cluster)),
    };
    return [
      ...startLines("daemon", sides.daemon, empty.daemon, sides.rawDaemon),
      ...startLines("controller", sides.controller, empty.controller, sides.rawController),
      memoryLine("daemon", full.daemon, 220),
      memoryLine("controller", full.controller, null),
    ];
  });

/** Every claim has an address, its allocation and a launcher pod; a tenth of the pods is on each node. */
async function populate(bench: KubeBench): Promise<void> {
  const { api } = bench.cluster;
  const indexes = Array.from({ length: OBJECTS }, (_, index) => index + 1);
  const claims = namespacedPath(CLAIMS_PATH, NAMESPACE);
  const entries: Parameters<typeof fill>[3][number][] = [];
  const make = async (index: number): Promise<void> => {
    const node = `node-${index % NODES}`;
    const name = `vm-${index}.${NETWORK}`;
    const selection = { name: NETWORK, "ipam-claim-reference": name };
    const pod = await bench.kubevirt.createPod(NAMESPACE, `virt-launcher-vm-${index}`, {
      node,
      phase: null,
      networks: [selection],
    });
    const claim = await api.create(claims, {
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { name, namespace: NAMESPACE },
      spec: { network: NETWORK, interface: "" },
    });
    const address = formatInterfaceAddress({ address: tenth(index), prefixLength: PREFIX_LENGTH });
    const status = { ips: [address], ownerPod: { name: pod.metadata.name } };
    await api.patch(`${claims}/${name}/status`, { status });
    const owner = {
      kind: "IPAMClaim",
      namespace: NAMESPACE,
      name,
      uid: claim.metadata.uid,
      interface: "",
    } as const;
    const attachment = {
      containerID: pod.metadata.uid,
      interface: "net1",
      node,
      pod: { namespace: NAMESPACE, name: pod.metadata.name, uid: pod.metadata.uid },
      since: SINCE,
    };
    // Containers of the node that starts would be in its journal: made behind its back it would record them all.
    const isOwn = node === bench.nodes[0]?.name;
    entries.push({ index, holder: { owner, attachment: isOwn ? null : attachment } });
  };
  for (let from = 0; from < OBJECTS; from += MADE_UNTIL_RESTART) {
    await inParallel(indexes.slice(from, from + MADE_UNTIL_RESTART), CREATED_AT_ONCE, make);
    await restartApiServer(bench.cluster);
  }
  await fill(bench.cluster, NETWORK, PREFIX_LENGTH, entries);
  // The first one was made with its daemon.
  for (let node = 1; node < NODES; node += 1) await bench.kubevirt.createNode(`node-${node}`);
}

async function starts(start: () => Promise<Start>): Promise<Start[]> {
  const all: Start[] = [];
  for (let count = 0; count < STARTS; count += 1) all.push(await start());
  return all;
}

async function startDaemon(node: NodeDaemon): Promise<Start> {
  await node.daemon.end();
  const startMs = performance.now();
  await node.restart("SIGTERM");
  const readyMs = performance.now() - startMs;
  const metrics = async () => (await node.daemon.get("/metrics")).body;
  const longestTurnMs = await longestTurn(metrics);
  const { pid } = node.process;
  return {
    readyMs,
    longestTurnMs,
    rssBytes: memoryBytesOf(pid, "VmRSS"),
    peakBytes: memoryBytesOf(pid, "VmHWM"),
  };
}

function startController(cluster: TestCluster): Promise<Start> {
  return BenchController.with(cluster, [], async (controller) => {
    const { readyMs } = controller;
    const longestTurnMs = await longestTurn(() => controller.metrics());
    return { readyMs, longestTurnMs, ...controller.memory };
  });
}

/** The longest turn of the event loop, ms, until ready and in the seconds after it. */
async function longestTurn(metrics: () => Promise<string>): Promise<number> {
  // Each look begins the measurement anew.
  const untilReadyMs = turnMsIn(await metrics());
  await sleep(SETTLE_MS);
  return Math.max(untilReadyMs, turnMsIn(await metrics()));
}

/** What a daemon lists before it is ready. */
function daemonLists(node: string): List[] {
  return [
    { path: `${ALLOCATIONS_PATH}?resourceVersion=0`, metadata: true },
    { path: `${NADS_PATH}?limit=500` },
    { path: `${PODS_PATH}?limit=500&fieldSelector=spec.nodeName%3D${node}` },
  ];
}

/** What a controller lists before it is ready. */
const CONTROLLER_LISTS: readonly List[] = [
  ...[ALLOCATIONS_PATH, CLAIMS_PATH, PODS_PATH, NADS_PATH, NETWORKS_PATH].map((path) => ({
    path: `${path}?resourceVersion=0`,
  })),
  { path: `${NODES_PATH}?resourceVersion=0`, metadata: true },
];

/** Milliseconds for all lists at once, as they are read at a start, but for what is done with them. */
export async function fetchedMs(cluster: TestCluster, user: ClusterUser, lists: readonly List[]): Promise<number> {
  const agent = new Agent({ keepAlive: true, ca: cluster.ca });
  const authorization = `Bearer ${cluster.token(user)}`;
  const fetchPage = (path: string, metadata: boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const headers = { authorization, accept: metadata ? METADATA : "application/json" };
      const sent = httpsGet(`${cluster.server}${path}`, { agent, headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("error", reject);
        answer.on("end", () => {
          const text = Buffer.concat(chunks).toString("latin1");
          if (answer.statusCode === 200) resolve(text);
          else reject(new Error(`${path}: ${answer.statusCode} ${text}`));
        });
      });
      sent.on("error", reject);
    });
  const fetchList = async ({ path, metadata = false }: List): Promise<void> => {
    for (let next = ""; ; ) {
      const text = await fetchPage(next === "" ? path : `${path}&continue=${next}`, metadata);
      next = encodeURIComponent(/"continue":"([^"]+)"/.exec(text)?.[1] ?? "");
      if (next === "") return;
    }
  };
  const times: number[] = [];
  for (let round = 0; round < STARTS; round += 1) {
    const startMs = performance.now();
    await Promise.all(lists.map(fetchList));
    times.push(performance.now() - startMs);
  }
  agent.destroy();
  return median(times);
}

function startLines(who: string, all: readonly Start[], empty: readonly Start[], rawMs: number): Line[] {
  const readyMs = median(all.map((one) => one.readyMs));
  const emptyMs = median(empty.map((one) => one.readyMs));
  const against = `${number(OBJECTS)} claims, pods and allocations, ${NODES} nodes; ${STARTS} starts, median`;
  return [
    atMost(readyMs / 1_000, 8, "s", { what: `start of a ${who}, from exec to ready`, against }),
    atMost(readyMs / rawMs, 2, "×", {
      what: "the same, beside the lists it reads",
      against: `the same lists fetched by a bare client, nothing parsed; ${against}`,
      beside: `${number(readyMs)} ms, fetched in ${number(rawMs)} ms; in an empty cluster ready after ${number(emptyMs)} ms`,
    }),
    atMost(Math.max(...all.map((one) => one.longestTurnMs)), 100, "ms", {
      what: `longest turn of the ${who}'s event loop, until ready and ${SETTLE_MS / 1_000} s after`,
      against: `the longest of ${STARTS} starts`,
    }),
    told(sayMemory(all), {
      what: `memory of that ${who}`,
      against: `resident set of the process, median; in an empty cluster ${sayMemory(empty)}`,
    }),
  ];
}

function memoryLine(who: string, all: readonly Start[], bound: number | null): Line {
  const what = `memory of a ${who} with ${number(MORE_OBJECTS)} allocations in the cluster`;
  const against = `resident set of the process; ${STARTS} starts, median`;
  if (bound === null) return told(sayMemory(all), { what, against });
  const rss = median(all.map((one) => one.rssBytes));
  const beside = `at most ${megabytes(Math.max(...all.map((one) => one.peakBytes)))} meanwhile; ready after ${number(median(all.map((one) => one.readyMs)) / 1_000)} s`;
  return atMost(rss / 1e6, bound, "MB", { what, against, beside });
}

function sayMemory(all: readonly Start[]): string {
  const peak = Math.max(...all.map((one) => one.peakBytes));
  const ready = number(median(all.map((one) => one.readyMs)) / 1_000);
  return `${megabytes(median(all.map((one) => one.rssBytes)))} (at most ${megabytes(peak)} meanwhile; ready after ${ready} s)`;
}

function megabytes(bytes: number): string {
  return `${number(bytes / 1e6)} MB`;
}
