import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { ApiProxy } from "../harness/api-proxy.ts";
import type { TestCluster } from "../harness/cluster.ts";
import { newDirectory } from "../harness/daemon.ts";
import { NodeDaemon, type NodeOptions } from "../harness/node.ts";
import { pause } from "../harness/wait.ts";
import { Containers } from "../network/containers.ts";

/** Room for the database, its log and the reserve of 8 MiB. */
const STATE_SIZE = "48m";
const FILLER = "filler";
/** Graces short enough that what they are for happens within a run. */
const FLAGS = ["--witness-grace-seconds", "10", "--recovery-seconds", "10", "--log-level", "warn"];
const ENV = { HOLDFAST_WITNESS_INTERVAL_SECONDS: "3", HOLDFAST_REASSERT_INTERVAL_SECONDS: "30" };

/** A node with a real daemon behind a proxy of its own, whose state directory is a small disk, and its containers. */
export class SoakNode {
  readonly name: string;
  /** Whether its daemon may be killed. Those of the others live as long as the run, so that growth shows. */
  readonly isMortal: boolean;
  readonly proxy: ApiProxy;
  readonly node: NodeDaemon;
  readonly containers: Containers;
  restarts = 0;
  /** Of daemons that were killed. */
  #earlierLog = "";

  private constructor(proxy: ApiProxy, node: NodeDaemon, isMortal: boolean) {
    this.name = node.name;
    this.proxy = proxy;
    this.node = node;
    this.isMortal = isMortal;
    this.containers = new Containers(node.daemon);
  }

  static async start(cluster: TestCluster, name: string, isMortal: boolean): Promise<SoakNode> {
    const directory = newDirectory();
    const state = join(directory, "state");
    mkdirSync(state);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${STATE_SIZE},mode=0700`, "soak", state]);
    const proxy = await ApiProxy.start(cluster);
    const kubeconfig = cluster.kubeconfig("holdfast-node", proxy.url, proxy.ca);
    const options: NodeOptions = { node: name, kubeconfig, directory, args: FLAGS, env: ENV };
    return new SoakNode(proxy, await NodeDaemon.start(options), isMortal);
  }

  /** Of the daemon; null while it is dead. */
  get pid(): number | null {
    const { pid, exitCode, signalCode } = this.node.process;
    return exitCode === null && signalCode === null ? (pid ?? null) : null;
  }

  /** Kills the daemon and starts another one after a while. */
  async kill(awayMs: number): Promise<void> {
    await this.node.daemon.end("SIGKILL");
    this.#earlierLog += this.node.log;
    await pause(awayMs);
    await this.node.restart("SIGKILL", { wait: false });
    this.restarts += 1;
  }

  async freeze(ms: number): Promise<void> {
    const { process } = this.node;
    process.kill("SIGSTOP");
    await pause(ms);
    process.kill("SIGCONT");
  }

  /** Takes all the space that its disk has, for a while. */
  async fillDisk(ms: number): Promise<void> {
    const path = join(this.node.daemon.state, FILLER);
    fill(path);
    await pause(ms);
    rmSync(path);
  }

  metrics(): Promise<string> {
    return this.node.daemon.get("/metrics").then(({ body }) => body);
  }

  /** Of all its daemons. */
  get log(): string {
    return this.#earlierLog + this.node.log;
  }

  /** Ends the daemon as an operator does: its exit code. */
  end(): Promise<number | null> {
    return this.node.daemon.end();
  }

  async isReady(): Promise<boolean> {
    return (await this.node.daemon.get("/readyz").catch(() => null))?.status === 200;
  }
}

function fill(path: string): void {
  const fd = openSync(path, "w");
  try {
    for (const block of [Buffer.alloc(1 << 20), Buffer.alloc(4096)]) while (hasWritten(fd, block));
  } finally {
    closeSync(fd);
  }
}

function hasWritten(fd: number, block: Buffer): boolean {
  try {
    return writeSync(fd, block) === block.length;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  }
}
