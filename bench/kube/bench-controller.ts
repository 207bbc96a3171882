import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { get } from "node:http";
import { networkObjectName } from "../../kube/object-names.ts";
import { type IPNetwork, NETWORKS_PATH } from "../../kube/objects.ts";
import type { TestCluster } from "../../test/harness/cluster.ts";
import { HOLDFAST } from "../../test/harness/daemon.ts";
import { freePorts } from "../../test/harness/kube-process.ts";
import { until } from "../../test/harness/wait.ts";
import { memoryBytesOf, processorMsOf } from "../workbench.ts";
import { BARE_NETWORK, type KubeBench, NETWORK, sleep } from "./kube-bench.ts";

const READY_LOOK_MS = 10;
/** As deploy/deployment.yaml has it. */
const NODE_OPTIONS = "--max-semi-space-size=8";
/** HOLDFAST_BENCH_PROFILES names a directory: controllers write profiles of their processor time into it. */
const PROFILES = process.env.HOLDFAST_BENCH_PROFILES;

/** `holdfast controller`, a process of its own with the rights that are shipped. */
export class BenchController {
  /** From exec to `/readyz`, ms. */
  readonly readyMs: number;
  readonly #process: ChildProcess;
  readonly #port: number;

  private constructor(process: ChildProcess, port: number, readyMs: number) {
    this.#process = process;
    this.#port = port;
    this.readyMs = readyMs;
  }

  /** Runs work with a controller that is ready, and ends it afterwards. */
  static async with<T>(
    cluster: TestCluster,
    flags: readonly string[],
    work: (controller: BenchController) => Promise<T>,
  ): Promise<T> {
    const [port] = (await freePorts(1)) as [number];
    const always = [
      ...["--kubeconfig", cluster.kubeconfig("holdfast-controller")],
      ...["--metrics-address", `127.0.0.1:${port}`],
      ...["--log-level", "error"],
    ];
    const profiling = PROFILES === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${PROFILES}`];
    const startMs = performance.now();
    // Settings of ours in a developer's shell are not for this controller, which refuses those it does not know.
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
    const controller = spawn(process.execPath, [...profiling, HOLDFAST, "controller", ...always, ...flags], {
      env: { ...Object.fromEntries(others), NODE_OPTIONS },
      stdio: "inherit",
    });
    const exited = once(controller, "exit");
    try {
      const isReady = async () => {
        if (controller.exitCode !== null) throw new Error(`the controller ended with ${controller.exitCode}`);
        return (await page(port, "/readyz").catch(() => null))?.status === 200;
      };
      while (!(await isReady())) await sleep(READY_LOOK_MS);
      return await work(new BenchController(controller, port, performance.now() - startMs));
    } finally {
      controller.kill("SIGTERM");
      await exited;
    }
  }

  /** Its metrics. Each look begins the measurement of the event loop anew. */
  async metrics(): Promise<string> {
    return (await page(this.#port, "/metrics")).body;
  }

  /** The longest turn of its event loop since the last look, ms. */
  async longestTurnMs(): Promise<number> {
    return turnMsIn(await this.metrics());
  }

  /** Processor time that it has taken so far, ms. */
  get processorMs(): number {
    return processorMsOf(this.#process.pid);
  }

  /** Resident memory, now and at most so far, bytes. */
  get memory(): { readonly rssBytes: number; readonly peakBytes: number } {
    const { pid } = this.#process;
    return { rssBytes: memoryBytesOf(pid, "VmRSS"), peakBytes: memoryBytesOf(pid, "VmHWM") };
  }
}

/** The longest turn of the event loop that metrics tell, ms. */
export function turnMsIn(metrics: string): number {
  return Number(/^nodejs_eventloop_lag_max_seconds (\S+)/m.exec(metrics)?.[1]) * 1_000;
}

function page(port: number, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = get({ host: "127.0.0.1", port, path, agent: false }, (answer) => {
      let body = "";
      answer.on("data", (chunk: Buffer) => {
        body += chunk.toString();
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
      answer.on("error", reject);
    });
    sent.on("error", reject);
  });
}

/** Lets a controller import the bench's networks, without which nothing is given, and ends it. */
export async function importNetworks({ cluster }: KubeBench): Promise<void> {
  await BenchController.with(cluster, [], async () => {
    for (const network of [NETWORK, BARE_NETWORK]) {
      const isDone = async () => {
        const path = `${NETWORKS_PATH}/${networkObjectName(network)}`;
        const object: IPNetwork | null = await cluster.api.get(path).catch(() => null);
        return (object?.status?.importedFrom ?? []).length > 0;
      };
      await until(isDone, `${network} to be imported`);
    }
  });
}
