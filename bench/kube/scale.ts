import {
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  NADS_PATH,
  NETWORKS_PATH,
  namespacedPath,
  PODS_PATH,
} from "../../kube/objects.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import { requestsOf } from "../../test/harness/kube-metrics.ts";
import type { NodeDaemon } from "../../test/harness/node.ts";
import { until } from "../../test/harness/wait.ts";
import { atMost, type Line, type Measurement, number, told } from "../line.ts";
import { median, sum } from "../statistics.ts";
import { memoryBytesOf } from "../workbench.ts";
import { BenchController, turnMsIn } from "./bench-controller.ts";
import { BARE_NETWORK, KubeBench, NAMESPACE, sleep } from "./kube-bench.ts";
import { inParallel } from "./parallel.ts";
import { LARGE_NETWORK, ScaleObjects, SUBNET } from "./scale-objects.ts";
import { fetchedMs } from "./start.ts";

const ALLOCATIONS = Number(process.env.HOLDFAST_BENCH_ALLOCATIONS ?? 100_000);
const DAEMONS = Number(process.env.HOLDFAST_BENCH_DAEMONS ?? 50);
const STARTS = 3;
/** Of the node that starts in both clusters. */
const OWN_PODS = 20;
const NEW_DAEMONS = 5;
const DELETED_AT_ONCE = 2_000;
const CREATED_AT_ONCE = 32;
/** Shorter than by default: what is measured comes after it. */
const GRACE_SECONDS = 5;
/** What a daemon does beside its readiness is over by then. */
const SETTLE_MS = 3_000;
/** The controller has judged and published everything by then. */
const CONTROLLER_SETTLE_MS = 30_000;
const REST_MS = 30_000;
/** What it lists of a server without WatchList. */
const CONTROLLER_LISTS = [ALLOCATIONS_PATH, CLAIMS_PATH, PODS_PATH, NADS_PATH, NETWORKS_PATH].map((path) => ({
  path: `${path}?limit=500`,
}));
/** Only ends a measurement that hangs. */
const WAIT_MS_MAX = 300_000;

interface Start {
  readonly readyMs: number;
  readonly rssBytes: number;
  readonly listed: Listed;
}

/** What a process has read in lists. */
interface Listed {
  readonly requests: number;
  readonly objects: number;
  readonly bytes: number;
}

/** What a node, fifty nodes and the controller cost in a cluster of HOLDFAST_BENCH_ALLOCATIONS allocations. */
export const kubeScale: Measurement = () =>
  KubeBench.with(SUBNET, async (bench) => {
    const objects = new ScaleObjects(bench, ALLOCATIONS);
    await objects.define();
    const flags = ["--sweep-grace-seconds", String(GRACE_SECONDS)];
    const empty = await BenchController.with(bench.cluster, flags, async (controller) => {
      const node = await bench.node();
      await bench.cni("ADD", await bench.pods(OWN_PODS), 1);
      const daemon = await starts(node);
      await node.daemon.end();
      return { daemon, controllerRssBytes: controller.memory.rssBytes };
    });
    await objects.write();
    const bareMs = await fetchedMs(bench.cluster, "holdfast-controller", CONTROLLER_LISTS);
    return BenchController.with(bench.cluster, flags, async (controller) => [
      ...(await controllerLines(controller, objects, { ...empty, bareMs })),
      ...startLines(objects, await starts(bench.nodes[0] as NodeDaemon), empty.daemon),
      ...(await togetherLines(bench)),
      ...(await firstAddLines(bench, objects)),
      ...(await deletionLines(bench.cluster, controller, objects)),
    ]);
  });

async function controllerLines(
  controller: BenchController,
  objects: ScaleObjects,
  { controllerRssBytes: emptyBytes, bareMs }: { readonly controllerRssBytes: number; readonly bareMs: number },
): Promise<Line[]> {
  const { readyMs, processorMs } = controller;
  const untilReadyMs = await controller.longestTurnMs();
  await sleep(CONTROLLER_SETTLE_MS);
  const turnsMs = [await controller.longestTurnMs()];
  const before = controller.processorMs;
  await sleep(REST_MS);
  const percent = ((controller.processorMs - before) / REST_MS) * 100;
  const metrics = await controller.metrics();
  turnsMs.push(turnMsIn(metrics));
  const { rssBytes, peakBytes } = controller.memory;
  const against = sayCluster(objects);
  return [
    atMost(readyMs / 1_000, 15, "s", {
      what: "start of a controller, from exec to ready",
      against,
      beside: `${number(processorMs / 1_000)} s of a processor; a bare client fetches the same pages in ${number(bareMs / 1_000)} s`,
    }),
    atMost(rssBytes / 1e6, 350, "MB", {
      what: "its resident memory a minute later",
      against,
      beside: `at most ${megabytes(peakBytes)}; in an empty cluster ${megabytes(emptyBytes)}`,
    }),
    told(`${sayListed(listedIn(metrics))}: ${sayResources(metrics)}`, {
      what: "read in lists by then",
      against,
    }),
    atMost(percent, 3, "% of a core", { what: "at rest", against: `over ${REST_MS / 1_000} s; ${against}` }),
    atMost(Math.max(untilReadyMs, ...turnsMs), 50, "ms", {
      what: "longest turn of its event loop until then",
      against,
      beside: `until ready ${number(untilReadyMs)} ms, afterwards ${number(Math.max(...turnsMs))} ms`,
    }),
  ];
}

function startLines(objects: ScaleObjects, full: readonly Start[], empty: readonly Start[]): Line[] {
  const of = (all: readonly Start[], value: (one: Start) => number) => median(all.map(value));
  const readyMs = [of(full, (one) => one.readyMs), of(empty, (one) => one.readyMs)] as const;
  const rss = [of(full, (one) => one.rssBytes), of(empty, (one) => one.rssBytes)] as const;
  const [{ listed }, before] = [full.at(-1) as Start, empty.at(-1) as Start];
  const against = `an empty cluster; ${OWN_PODS} containers on the node, ${STARTS} starts, median; ${sayCluster(objects)}`;
  return [
    atMost(readyMs[0] / readyMs[1], 1.3, "×", {
      what: "start of a daemon, from exec to ready",
      against,
      beside: `${sayTimes(full)}, empty ${sayTimes(empty)}`,
    }),
    atMost(listed.bytes / 1e6, 1, "MB", {
      what: "it reads in lists",
      against,
      beside: `${sayListed(listed)}; empty ${sayListed(before.listed)}`,
    }),
    atMost((rss[0] - rss[1]) / 1e6, 15, "MB", {
      what: "its memory beyond that in an empty cluster",
      against,
      beside: `${megabytes(rss[0])}, empty ${megabytes(rss[1])}`,
    }),
  ];
}

/** New nodes, as after a power-on: nothing in their journals, so each also lists what is labelled with its name. */
async function togetherLines(bench: KubeBench): Promise<Line[]> {
  const before = await serverCounts(bench.cluster);
  const startMs = performance.now();
  const nodes = await Promise.all(Array.from({ length: DAEMONS }, () => bench.node(false)));
  await Promise.all(nodes.map(ready));
  const readyMs = performance.now() - startMs;
  await sleep(SETTLE_MS);
  const listed = await Promise.all(nodes.map(listedBy));
  const bytes = sum(listed.map((one) => one.bytes));
  const counts = [...(await serverCounts(bench.cluster))]
    .map(([what, count]) => [what, count - (before.get(what) ?? 0)] as const)
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${what} ${number(count)}`);
  await Promise.all(nodes.map(({ daemon }) => daemon.end()));
  const against = `${DAEMONS} daemons of new nodes at once, with the API server on the same cores`;
  return [
    atMost(readyMs / 1_000, 10, "s", { what: `${DAEMONS} daemons started at once, all ready`, against }),
    atMost(bytes / 1e6, DAEMONS, "MB", {
      what: "they read in lists",
      against,
      beside: `${number(bytes / DAEMONS / 1e3)} kB and ${number(sum(listed.map((one) => one.requests)) / DAEMONS)} requests each`,
    }),
    told(counts.join(", "), { what: "requests that the API server counted meanwhile", against }),
  ];
}

interface FirstAdd {
  readonly ms: number;
  readonly grownBytes: number;
  readonly lists: number;
}

async function firstAddLines(bench: KubeBench, objects: ScaleObjects): Promise<Line[]> {
  await bench.untilPublished(LARGE_NETWORK, objects.large);
  const large: FirstAdd[] = [];
  const empty: FirstAdd[] = [];
  for (let index = 0; index < NEW_DAEMONS; index += 1) {
    large.push(await firstAdd(bench, LARGE_NETWORK));
    empty.push(await firstAdd(bench, BARE_NETWORK));
  }
  const what = `first ADD of a new daemon on a network of ${number(objects.large)}`;
  const against = `${NEW_DAEMONS} daemons each, by turns with an empty network; both are published`;
  const grownMb = (all: readonly FirstAdd[]) => median(all.map(({ grownBytes }) => grownBytes)) / 1e6;
  const sayMs = (all: readonly FirstAdd[]) => all.map(({ ms }) => number(ms)).join(", ");
  return [
    atMost(median(large.map(({ ms }) => ms)), 30, "ms", {
      what: `${what}, median`,
      against,
      beside: `${sayMs(large)} ms; empty ${sayMs(empty)} ms`,
    }),
    atMost(sum(large.map(({ lists }) => lists)), 0, "lists", { what: "they ask for", against }),
    atMost(grownMb(large) - grownMb(empty), 1, "MB", {
      what: "its memory grows by more than on an empty network",
      against,
      beside: `${number(grownMb(large))} MB, empty ${number(grownMb(empty))} MB`,
    }),
  ];
}

async function firstAdd(bench: KubeBench, network: string): Promise<FirstAdd> {
  const node = await bench.node();
  const guests = await bench.pods(1, [node], network);
  await sleep(SETTLE_MS);
  const listed = await listedBy(node);
  const rssBytes = memoryBytesOf(node.process.pid, "VmRSS");
  const { ms } = await bench.cni("ADD", guests, 1);
  const grownBytes = memoryBytesOf(node.process.pid, "VmRSS") - rssBytes;
  const lists = (await listedBy(node)).requests - listed.requests;
  await node.daemon.end();
  return { ms, grownBytes, lists };
}

async function deletionLines(
  { api }: TestCluster,
  controller: BenchController,
  objects: ScaleObjects,
): Promise<Line[]> {
  const count = Math.min(DELETED_AT_ONCE, objects.claims);
  const names = Array.from({ length: count }, (_, index) => objects.nameOfClaim(index));
  const path = namespacedPath(CLAIMS_PATH, NAMESPACE);
  await controller.longestTurnMs();
  await inParallel(names, CREATED_AT_ONCE, (name) => api.delete(`${path}/${name}`));
  const startMs = performance.now();
  const turnsMs: number[] = [];
  const isDone = async () => {
    const metrics = await controller.metrics();
    turnsMs.push(turnMsIn(metrics));
    return released(metrics) >= count;
  };
  await until(isDone, `${count} addresses to cool down`, WAIT_MS_MAX);
  const seconds = (performance.now() - startMs) / 1_000;
  const against = `${CREATED_AT_ONCE} deleted at a time, from the last one on; grace ${GRACE_SECONDS} s; ${sayCluster(objects)}`;
  return [
    atMost(seconds, GRACE_SECONDS + 30, "s", {
      what: `${number(count)} claims deleted at once, all addresses cooling`,
      against,
    }),
    atMost(Math.max(...turnsMs), 50, "ms", {
      what: "longest turn of the controller's event loop meanwhile",
      against,
    }),
  ];
}

async function starts(node: NodeDaemon): Promise<Start[]> {
  const all: Start[] = [];
  for (let count = 0; count < STARTS; count += 1) {
    await node.daemon.end();
    const startMs = performance.now();
    await node.restart("SIGTERM");
    const readyMs = performance.now() - startMs;
    await sleep(SETTLE_MS);
    const rssBytes = memoryBytesOf(node.process.pid, "VmRSS");
    all.push({ readyMs, rssBytes, listed: await listedBy(node) });
  }
  return all;
}

function ready({ daemon, name }: NodeDaemon): Promise<void> {
  const isReady = async () => (await daemon.get("/readyz").catch(() => null))?.status === 200;
  return until(isReady, `${name} to be ready`, WAIT_MS_MAX);
}

async function listedBy({ daemon }: NodeDaemon): Promise<Listed> {
  return listedIn((await daemon.get("/metrics")).body);
}

function listedIn(metrics: string): Listed {
  const total = (what: string) => sum(requestsOf(metrics, `holdfast_api_list_${what}_total`).map(({ count }) => count));
  return { requests: total("requests"), objects: total("objects"), bytes: total("bytes") };
}

/** Addresses that the controller has released. */
function released(metrics: string): number {
  const series = requestsOf(metrics, "holdfast_controller_carried_out_total");
  return sum(series.filter(({ label }) => label.get("verdict") === "release").map(({ count }) => count));
}

/** Lists and watches that an API server has begun since its start, by verb and resource. */
async function serverCounts({ api }: TestCluster): Promise<ReadonlyMap<string, number>> {
  const metrics = await api.get("/metrics");
  const counts = new Map<string, number>();
  // A watch is in the first when it ends, and until then in the second.
  for (const name of ["apiserver_request_total", "apiserver_longrunning_gauge"])
    for (const { label, count } of requestsOf(metrics, name)) {
      const verb = label.get("verb") ?? "";
      if (verb !== "LIST" && verb !== "WATCH") continue;
      const what = `${verb} ${label.get("resource")}`;
      counts.set(what, (counts.get(what) ?? 0) + count);
    }
  return counts;
}

function sayCluster({ allocations, pods, claims, nodes }: ScaleObjects): string {
  return `${number(allocations)} allocations on 100 networks, ${number(pods)} pods, ${number(claims)} claims, ${number(nodes)} nodes`;
}

/** Bytes that a process has read in lists, by resource. */
function sayResources(metrics: string): string {
  const bytes = new Map<string, number>();
  for (const { label, count } of requestsOf(metrics, "holdfast_api_list_bytes_total")) {
    const resource = label.get("resource") ?? "";
    bytes.set(resource, (bytes.get(resource) ?? 0) + count);
  }
  return [...bytes].map(([resource, count]) => `${resource} ${number(count / 1e3)} kB`).join(", ");
}

function sayTimes(all: readonly Start[]): string {
  return all.map(({ readyMs }) => `${number(readyMs)} ms`).join(" ");
}

function sayListed({ requests, objects, bytes }: Listed): string {
  return `${number(bytes / 1e3)} kB, ${number(objects)} objects in ${number(requests)} requests`;
}

function megabytes(bytes: number): string {
  return `${number(bytes / 1e6)} MB`;
}
