import { BalancedServers } from "./balanced-servers.ts";
import type { TestCluster } from "./cluster.ts";
import type { KubeObject } from "./kube-api.ts";
import { KubePods } from "./kube-pods.ts";
import { NodeDaemon } from "./node.ts";
import { machineTime, pause, until } from "./wait.ts";
import { Importer } from "./world/importer.ts";
import { configOf, NAMESPACE } from "./world/network.ts";

const NODE = "switched";
const CONFIG = configOf("switched", { subnets: "10.94.0.0/16" });
/** Enough that none comes again within a switch: what a pod had a moment ago is its own still. */
const PODS = 150;
const WORKERS = 4;
/** Between two ADDs of one worker, ms. */
const PAUSE_MS = 100;
/** Before the first switch. */
const ADDS_BEFORE = 40;
/** From a switch to the cut that follows it, ms. */
const CUT_AFTER_MS = 1_000;
/** Only ends what hangs, ms: far longer than any refusal may last. */
const SERVED_MS_MAX = 400_000;

export interface Switches {
  readonly adds: number;
  readonly refused: number;
  /** The longest time for which a pod had no address, from its first ADD that was refused, ms. */
  readonly longestRefusalMs: number;
  /** What the longest refusal said. */
  readonly worst: string;
  /** Times at which /readyz was 200 although the ADD asked before and after it was refused. */
  readonly untrue: number;
}

/**
 * Two API servers behind a balancer, each restarted in turn so many times, under the ADDs of a daemon that knows the
 * balancer only, two of them and a cut connection in a row before it is waited for. The cluster needs the namespace of
 * tests.
 */
export async function switchServers(cluster: TestCluster, times: number): Promise<Switches> {
  const pods = new KubePods(cluster.api);
  const importer = new Importer(cluster.connect("holdfast-controller")("", machineTime.clock));
  const servers = await BalancedServers.start(cluster);
  let node: NodeDaemon | null = null;
  try {
    await pods.createNode(NODE);
    await pods.createNad(NAMESPACE, "switched", CONFIG);
    const guests: KubeObject[] = [];
    for (let index = 0; index < PODS; index += 1) {
      const networks = [{ name: "switched" }];
      guests.push(await pods.createPod(NAMESPACE, `switched-${index}`, { node: NODE, networks }));
    }
    const kubeconfig = cluster.kubeconfig("holdfast-node", servers.url);
    node = await NodeDaemon.start({ node: NODE, kubeconfig });
    const load = new Load(node, guests);
    await until(() => load.adds >= ADDS_BEFORE, "the first ADDs");
    for (let round = 0; round < times; round += 1) {
      // The moment that a server is ready the other one is killed, as by a rolling upgrade that waits for nothing else.
      await servers.takeOver();
      await servers.bringBack();
      // Then the balancer cuts once more: a third gap while the node may still wait for the end of the first one.
      await servers.takeOver();
      await Promise.all([servers.bringBack(), pause(CUT_AFTER_MS).then(() => servers.cut())]);
      await load.served();
    }
    return await load.end();
  } finally {
    await node?.stop();
    await servers.stop();
    await importer.stop();
  }
}

/** Pods that come and go, as fast as a few workers attach them. */
class Load {
  adds = 0;
  #refused = 0;
  #longestRefusalMs = 0;
  #worst = "";
  #untrue = 0;
  #sandboxes = 0;
  /** The newest sandbox that got an address. */
  #newest = 0;
  #isOver = false;
  readonly #node: NodeDaemon;
  readonly #guests: KubeObject[];
  readonly #workers: Promise<void>[];

  constructor(node: NodeDaemon, guests: KubeObject[]) {
    this.#node = node;
    this.#guests = guests;
    this.#workers = Array.from({ length: WORKERS }, () => this.#work());
  }

  /** Resolves when an ADD that begins after this was answered with an address, and the node is ready. */
  async served(): Promise<void> {
    const sandbox = this.#sandboxes;
    const isReady = async () => (await this.#node.daemon.get("/readyz")).status === 200;
    await until(async () => this.#newest > sandbox && (await isReady()), "an ADD", SERVED_MS_MAX);
  }

  async end(): Promise<Switches> {
    this.#isOver = true;
    await Promise.all(this.#workers);
    return {
      adds: this.adds,
      refused: this.#refused,
      longestRefusalMs: Math.round(this.#longestRefusalMs),
      worst: this.#worst,
      untrue: this.#untrue,
    };
  }

  async #work(): Promise<void> {
    while (!this.#isOver) {
      const pod = this.#guests.shift() as KubeObject;
      await this.#attach(pod);
      this.#guests.push(pod);
      await pause(PAUSE_MS);
    }
  }

  async #attach(pod: KubeObject): Promise<void> {
    this.#sandboxes += 1;
    const sandbox = this.#sandboxes;
    const options = { config: CONFIG, containerId: `sandbox-${sandbox}` };
    let refusedMs: number | null = null;
    let said = "";
    for (;;) {
      const askedMs = performance.now();
      const { code, stdout } = await this.#node.add(pod, options);
      if (code === 0) break;
      this.#refused += 1;
      refusedMs ??= askedMs;
      said += `${Math.round(performance.now() - refusedMs)} ms: ${stdout}`;
      const { status } = await this.#node.daemon.get("/readyz");
      const again = await this.#node.add(pod, options);
      if (again.code === 0) break;
      if (status === 200 && stdout === again.stdout) this.#untrue += 1;
      await pause(PAUSE_MS);
    }
    if (refusedMs !== null) this.#note(performance.now() - refusedMs, said);
    this.adds += 1;
    this.#newest = Math.max(this.#newest, sandbox);
    await this.#node.del(pod, options);
  }

  #note(ms: number, said: string): void {
    if (ms <= this.#longestRefusalMs) return;
    this.#longestRefusalMs = ms;
    this.#worst = said;
  }
}
