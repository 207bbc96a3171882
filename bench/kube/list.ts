import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { cleanEnv, HOLDFAST } from "../../test/harness/daemon.ts";
import type { NodeDaemon } from "../../test/harness/node.ts";
import { atMost, type Line, type Measurement, number, told } from "../line.ts";
import { median } from "../statistics.ts";
import { memoryBytesOf } from "../workbench.ts";
import { fill, stranger } from "./fill.ts";
import { KubeBench, NETWORK, sleep } from "./kube-bench.ts";
import { fetchedMs } from "./start.ts";

const OBJECTS = 20_000;
const NETWORKS = 50;
const PREFIX_LENGTH = 8;
const RUNS = 5;
/** A daemon that has listed nothing for so long, ms, has done with the API server's restart. */
const SETTLE_MS = 20_000;
const COLUMNS = 160;
/** A line for the headers is above it. */
const FIRST_ROW_LINES = 2;

interface Shown {
  readonly firstRowMs: number;
  readonly totalMs: number;
  readonly lines: number;
}

/** `holdfast list` with 20,000 allocations on 50 networks of the cluster: on a node's socket, and with a kubeconfig. */
export const kubeList: Measurement = () =>
  KubeBench.with("10.0.0.0/8", async (bench) => {
    const { cluster } = bench;
    const entries = Array.from({ length: OBJECTS }, (_, index) => ({
      index: index + 1,
      holder: stranger(index),
      network: `net-${index % NETWORKS}`,
    }));
    // It starts in an empty cluster: what a start costs in a full one is measured by kube-start.
    const node = await bench.node();
    await fill(cluster, NETWORK, PREFIX_LENGTH, entries);
    await settled(node);
    const { pid } = node.process;
    const beforeBytes = memoryBytesOf(pid, "VmRSS");
    // The peak of the start is forgotten.
    writeFileSync(`/proc/${pid}/clear_refs`, "5");
    const readBefore = await objectsRead(node);
    const ofNode = [await onTerminal(["list", "--socket", node.daemon.socket])];
    const read = (await objectsRead(node)) - readBefore;
    for (let run = 1; run < RUNS; run += 1) ofNode.push(await onTerminal(["list", "--socket", node.daemon.socket]));
    const document = await timed(() => node.daemon.cli("list", "-o", "json"));
    const ofNetwork = await timed(() => node.daemon.cli("list", "--network", "net-7"));
    const ofPod = await timed(() => node.daemon.cli("list", "--pod", "pod-19999"));
    const peakBytes = memoryBytesOf(pid, "VmHWM");
    const kubeconfig = cluster.kubeconfig("admin");
    const ofCluster = [];
    for (let run = 0; run < RUNS; run += 1) ofCluster.push(await onTerminal(["list", "--kubeconfig", kubeconfig]));
    const bareMs = await fetchedMs(cluster, "holdfast-node", [{ path: `${ALLOCATIONS_PATH}?limit=500` }]);
    for (const { lines } of [...ofNode, ...ofCluster])
      if (lines !== OBJECTS + 1) throw new Error(`${lines} lines of a list of ${OBJECTS}`);
    const grownBytes = peakBytes - beforeBytes;
    return [
      ...listLines("on a node's socket", ofNode, bareMs),
      ...listLines("with --kubeconfig", ofCluster, bareMs),
      told(`${number(document)} ms, of one network ${number(ofNetwork)} ms, of one pod ${number(ofPod)} ms`, {
        what: "the same on a node as JSON in a pipe",
        against: `${number(OBJECTS)} allocations, ${NETWORKS} networks; once each`,
      }),
      atMost(grownBytes / 1e6, 10, "MB", {
        what: "memory of the daemon meanwhile",
        against: "highest resident set of the process, beyond that at rest",
        beside: `${number(beforeBytes / 1e6)} MB at rest`,
      }),
      atMost(read, OBJECTS, "objects", {
        what: "read by the daemon for one list",
        against: "holdfast_api_list_objects_total",
      }),
    ];
  });

function listLines(where: string, all: readonly Shown[], bareMs: number): Line[] {
  const against = `${number(OBJECTS)} allocations, ${NETWORKS} networks, on a terminal; ${RUNS} runs, median`;
  const totalMs = median(all.map((one) => one.totalMs));
  return [
    atMost(median(all.map((one) => one.firstRowMs)), 500, "ms", {
      what: `holdfast list ${where}: from exec to the first row`,
      against,
    }),
    atMost(totalMs / bareMs, 2, "×", {
      what: "to its end, beside one read of the cluster",
      against: `the same pages fetched by a bare client, nothing parsed; ${against}`,
      beside: `${number(totalMs)} ms, fetched in ${number(bareMs)} ms`,
    }),
  ];
}

/** Through a terminal, as people see it. */
function onTerminal(words: readonly string[]): Promise<Shown> {
  const command = `stty cols ${COLUMNS}; ${[process.execPath, HOLDFAST, ...words].join(" ")}`;
  const startMs = performance.now();
  const child = spawn("script", ["-qec", command, "/dev/null"], {
    env: { ...cleanEnv(), TERM: "xterm" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let lines = 0;
  let firstRowMs = 0;
  child.stdout.on("data", (chunk: Buffer) => {
    for (const byte of chunk) if (byte === 10) lines += 1;
    if (firstRowMs === 0 && lines >= FIRST_ROW_LINES) firstRowMs = performance.now() - startMs;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve({ firstRowMs, totalMs: performance.now() - startMs, lines });
      else reject(new Error(`holdfast ${words.join(" ")} ended with ${code}`));
    });
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

async function settled(node: NodeDaemon): Promise<void> {
  for (let read = -1; ; ) {
    const before = read;
    read = await objectsRead(node);
    if (read === before) return;
    await sleep(SETTLE_MS);
  }
}

/** Allocations that the daemon has listed. */
async function objectsRead({ daemon }: NodeDaemon): Promise<number> {
  const { body } = await daemon.get("/metrics");
  const counts = body.matchAll(/^holdfast_api_list_objects_total\{resource="ipallocations",.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}
