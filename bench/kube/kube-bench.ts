import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { networkObjectName } from "../../kube/object-names.ts";
import { type IPNetwork, NETWORKS_PATH } from "../../kube/objects.ts";
import { readPublishedSpace } from "../../kube/views/published-space.ts";
import { ADDRESSES_ANNOTATION } from "../../kube/views/requested-addresses.ts";
import { type ClusterOptions, TestCluster } from "../../test/harness/cluster.ts";
import { run, SHIM } from "../../test/harness/daemon.ts";
import type { KubeObject } from "../../test/harness/kube-api.ts";
import { KubeVirt, type Vm } from "../../test/harness/kubevirt.ts";
import { cniArgs, NodeDaemon } from "../../test/harness/node.ts";
import { until } from "../../test/harness/wait.ts";
import { interfaceOf } from "../../test/harness/world/kubevirt-objects.ts";
import { newDirectory } from "../workbench.ts";
import { inParallel } from "./parallel.ts";

const POD_DRIVER = "build/bench/pod-driver";
export const NAMESPACE = "bench";
/** The network that is measured, and one whose claims belong to the same VMs, for the client that is compared. */
export const NETWORK = "blue";
export const BARE_NETWORK = "bare";
export const VM_INTERFACE = interfaceOf(NETWORK);
const POD_INTERFACE = "net1";
/** As many requests as keep the API server busy while objects are made. */
const CREATED_AT_ONCE = 32;
/** Only ends a measurement that hangs. */
const PUBLISHED_MS_MAX = 300_000;
/** Watches have told everybody of what was made. */
const SEEN_MS = 1_000;

/** A pod, and the node on which its interface is attached. */
export interface Guest {
  readonly node: NodeDaemon;
  readonly pod: KubeObject;
  readonly interface: string;
  readonly network: string;
  /** Of a launcher pod. */
  readonly vm: Vm | null;
}

/** A cluster with nothing in it, and daemons of nodes: real processes, their state on a disk. */
export class KubeBench {
  readonly cluster: TestCluster;
  readonly kubevirt: KubeVirt;
  readonly nodes: NodeDaemon[] = [];
  /** Files with networks' configurations, by name. */
  readonly #configs = new Map<string, string>();
  readonly #netns: string;
  #guests = 0;
  #named = 0;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.kubevirt = new KubeVirt(cluster.api);
    this.#netns = join(cluster.directory, "netns");
    writeFileSync(this.#netns, "");
  }

  /** Runs work with a cluster of its own, of which nothing is left afterwards. */
  static async with<T>(
    subnet: string,
    work: (bench: KubeBench) => Promise<T>,
    options: ClusterOptions = {},
  ): Promise<T> {
    // Nobody's garbage collector works beside what is measured.
    const cluster = await TestCluster.start({ ...options, controllers: false });
    const bench = new KubeBench(cluster);
    try {
      await bench.kubevirt.createNamespace(NAMESPACE);
      for (const name of [NETWORK, BARE_NETWORK]) await bench.addNetwork(name, subnet);
      return await work(bench);
    } finally {
      await Promise.all(bench.nodes.map((node) => node.stop()));
      await cluster.stop();
    }
  }

  /** Defines a network that has an address space of its own. */
  async addNetwork(name: string, subnet: string): Promise<void> {
    const config = configOf(name, subnet);
    const path = join(this.cluster.directory, `${name}.conf`);
    writeFileSync(path, JSON.stringify(config));
    this.#configs.set(name, path);
    await this.kubevirt.createNad(NAMESPACE, name, config);
  }

  /** Starts the daemon of one more node; `wait`: until it is ready. */
  async node(wait = true): Promise<NodeDaemon> {
    const node = `node-${this.#named}`;
    this.#named += 1;
    await this.kubevirt.createNode(node);
    const kubeconfig = this.cluster.kubeconfig("holdfast-node");
    const directory = newDirectory();
    try {
      const started = await NodeDaemon.start({ node, kubeconfig, directory, wait });
      this.nodes.push(started);
      return started;
    } catch (error) {
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  /** Until a controller has published so many taken addresses of a network. */
  async untilPublished(network: string, count: number): Promise<void> {
    const isThere = async () => {
      const object: IPNetwork = await this.cluster.api.get(`${NETWORKS_PATH}/${networkObjectName(network)}`);
      return (readPublishedSpace(object)?.used[4].size ?? 0n) >= BigInt(count);
    };
    await until(isThere, `${network} to be published`, PUBLISHED_MS_MAX);
  }

  /** Plain pods, by turns on the nodes; every daemon knows them when this returns. */
  async pods(count: number, nodes: readonly NodeDaemon[] = this.nodes, network: string = NETWORK): Promise<Guest[]> {
    return this.#make(count, nodes, async (node, number) => {
      const options = { node: node.name, phase: null, networks: [{ name: network }] };
      const pod = await this.kubevirt.createPod(NAMESPACE, `pod-${number}`, options);
      return { node, pod, interface: POD_INTERFACE, network, vm: null };
    });
  }

  /** VMs with their claims, one on each network, and their launcher pods. `asked`: the address that each asks for. */
  async vms(
    count: number,
    nodes: readonly NodeDaemon[] = this.nodes,
    asked?: (number: number) => string,
  ): Promise<Guest[]> {
    const networks = [NETWORK, BARE_NETWORK].map((network) => ({ logical: network, nad: network, network }));
    return this.#make(count, nodes, async (node, number) => {
      const made = await this.kubevirt.createVm(NAMESPACE, `vm-${number}`, networks);
      const text = asked && JSON.stringify({ [NETWORK]: [asked(number)] });
      const vm = text === undefined ? made : { ...made, annotations: { [ADDRESSES_ANNOTATION]: text } };
      const { pod } = await this.kubevirt.startVm(vm, node.name, null);
      return { node, pod, interface: VM_INTERFACE, network: NETWORK, vm };
    });
  }

  /**
   * Executes the plugin once for each guest, all of one network, `inFlight` of them at once on each node. Throws when
   * it refuses one.
   */
  async cni(
    verb: "ADD" | "DEL",
    guests: readonly Guest[],
    inFlight: number,
    containerSuffix = "",
  ): Promise<{ ms: number; each: number[] }> {
    const nodes = [...new Set(guests.map(({ node }) => node))];
    const jobs = guests.map(({ node, pod, interface: name }) => {
      const containerId = `${pod.metadata.uid}${containerSuffix}`;
      return [
        nodes.indexOf(node),
        `HOLDFAST_SOCKET=${node.daemon.socket}`,
        `HOLDFAST_SPOOL=${node.daemon.spool}`,
        `CNI_CONTAINERID=${containerId}`,
        `CNI_IFNAME=${name}`,
        `CNI_ARGS=${cniArgs(pod, containerId)}`,
      ].join("\t");
    });
    const env = { CNI_COMMAND: verb, CNI_NETNS: this.#netns, CNI_PATH: "/opt/cni/bin" };
    const config = this.#configs.get(guests[0]?.network ?? NETWORK) as string;
    const args = [String(inFlight), config, SHIM];
    const { code, stdout, stderr } = await run(POD_DRIVER, args, env, `${jobs.join("\n")}\n`);
    if (code !== 0) throw new Error(stderr);
    const [ms = 0, ...each] = stdout
      .trim()
      .split("\n")
      .map((us) => Number(us) / 1_000);
    return { ms, each };
  }

  /** Single requests of all daemons to the API server so far: no lists, no watches. */
  async requests(): Promise<number> {
    let total = 0;
    for (const { daemon } of this.nodes) {
      const { body } = await daemon.get("/metrics");
      const counts = body.matchAll(
        /^holdfast_api_request_duration_seconds_count\{verb="(?:GET|POST|PUT|PATCH|DELETE)".*\} (\d+)$/gm,
      );
      for (const [, count] of counts) total += Number(count);
    }
    return total;
  }

  async #make(
    count: number,
    nodes: readonly NodeDaemon[],
    make: (node: NodeDaemon, number: number) => Promise<Guest>,
  ): Promise<Guest[]> {
    const first = this.#guests;
    this.#guests += count;
    const guests = new Array<Guest>(count);
    await inParallel(guests, CREATED_AT_ONCE, async (_, index) => {
      const node = nodes[index % nodes.length] as NodeDaemon;
      guests[index] = await make(node, first + index);
    });
    await sleep(SEEN_MS);
    return guests;
  }
}

function configOf(name: string, subnets: string): object {
  return {
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    allowPersistentIPs: true,
    ipam: { type: "holdfast-ipam", subnets },
  };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
