/*
 * test/harness/world/: a cluster with nodes, controllers and guests, as every test of them has it
 *
 *   world              what runs, put together: nodes, controllers, proxies; what was answered, and `settled`
 *   objects            what is in the API: networks, claims, allocations, events; network: one, as tests pass it around
 *   instances          VMIs, whose status follows their launcher pods; kubevirt-objects: what KubeVirt writes
 *   guests             pods and VMs with an interface: ADD and DEL on a node; importer: for worlds without a controller
 *   cluster            what both kinds of cluster offer: harness/cluster.ts, a real API server, and memory-cluster
 *   memory-cluster     kube-fake with rights and controllers; memory-api, memory-front: by path, and over HTTP
 *   world-time         when time passes in a world in memory; under-way: what it waits for
 *   hourly-passes      every periodic pass an hour apart; hourly-setup: in all files of a project
 *
 * What a world need not have is read when it is asked for: a test file pays for its imports.
 */

import pino from "pino";
import { expect } from "vitest";
import type { Controller } from "../../../controller/controller.ts";
import { type ControllerSettings, loadControllerSettings } from "../../../controller/settings.ts";
import type { Connect } from "../../../kube/kube-api.ts";
import { ALLOCATIONS_PATH } from "../../../kube/objects.ts";
import type { AdmissionServer } from "../admission.ts";
import { ApiProxy } from "../api-proxy.ts";
import type { ClusterOptions, TestCluster } from "../cluster.ts";
import type { CniAnswer } from "../daemon.ts";
import type { KubeObject } from "../kube-api.ts";
import type { Link } from "../kube-fake/client/link.ts";
import { pathOf } from "../kube-pods.ts";
import type { ClusterApi, ClusterApiOptions } from "../machines/cluster-api.ts";
import { type AttachmentOptions, NodeDaemon, type NodeOptions } from "../node.ts";
import { machineTime } from "../wait.ts";
import type { Account, Cluster } from "./cluster.ts";
import { checked, type Guest, optionsOf, type VmGuest } from "./guests.ts";
import type { Importer } from "./importer.ts";
import { NETWORKS } from "./kubevirt-objects.ts";
import type { MemoryCluster } from "./memory-cluster.ts";
import type { MetadataFlags, MetadataHere } from "./metadata-here.ts";
import { ipsOf, NAMESPACE, type Network, nameOf } from "./network.ts";
import { WorldObjects } from "./objects.ts";

const SETTLED_MS_MAX = 30_000;
/** In place of a kubeconfig's path, where a connection is handed over instead. */
const HANDED_OVER = "handed over";

export interface WorldOptions {
  /**
   * `memory`: the server in memory (kube-fake), and daemons in this process. `server`: kube-apiserver, and processes.
   */
  readonly api: "memory" | "server";
  /** With the API in memory; see MemoryClusterOptions. */
  readonly time?: "machine" | "virtual";
  readonly nodes?: readonly string[];
  /** Of a real server; of one in memory `oldClaims` only. */
  readonly cluster?: ClusterOptions;
  /** Settings of a controller that runs beside the nodes, in this process; absent: there is none. */
  readonly controller?: ControllerFlags;
  /** Of every node, where it says nothing else. */
  readonly node?: StartOptions;
  /**
   * The API server enforces the policies of deploy/admission, and each daemon has a token of its node. Default: where
   * HOLDFAST_TEST_ADMISSION is "on".
   */
  readonly admission?: boolean;
}

export type ControllerFlags = Partial<Record<keyof ControllerSettings, unknown>>;

export type StartOptions = Partial<Omit<NodeOptions, "node" | "connect">> & {
  /**
   * A process of its own, which can be killed; default: where the API is a real server, or a kubeconfig is given, of a
   * proxy for example.
   */
  readonly process?: boolean;
  /** What becomes of its requests, with the API in memory. */
  readonly way?: Link;
};

/** How a test attaches a pod, where it differs from the usual. */
export type Attaching = Partial<AttachmentOptions>;

interface Answered {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
  readonly ips: readonly string[];
}

/** A cluster with nodes, and everything that `add` was answered and `del` has not ended. */
export class World extends WorldObjects {
  readonly #isMemory: boolean;
  readonly #nodes = new Map<string, NodeDaemon>();
  /** By interface: a new sandbox of a pod takes the place of the one before. */
  readonly #answered = new Map<string, Answered>();
  readonly #controllers: Controller[] = [];
  readonly #metadata: MetadataHere[] = [];
  readonly #proxies: ApiProxy[] = [];
  #importer: Importer | null = null;
  #importing: Promise<void> | null = null;
  #admission: AdmissionServer | null = null;
  #capi: ClusterApi | null = null;
  #isAdmitting = false;
  #hasController = false;
  #node: StartOptions = {};
  #count = 0;

  static async start(options: WorldOptions): Promise<World> {
    const { api, time = "virtual", cluster } = options;
    const admission = options.admission ?? process.env.HOLDFAST_TEST_ADMISSION === "on";
    const { oldClaims = false } = cluster ?? {};
    const world = new World(
      api === "memory"
        ? await (await import("./memory-cluster.ts")).MemoryCluster.start({ oldClaims, admission, time })
        : await (await import("../cluster.ts")).TestCluster.start(cluster),
      api === "memory",
    );
    world.#isAdmitting = admission;
    try {
      await world.#begin(options);
      return world;
    } catch (error) {
      await world.stop();
      throw error;
    }
  }

  private constructor(cluster: Cluster, isMemory: boolean) {
    super(cluster);
    this.#isMemory = isMemory;
  }

  stop(): Promise<void> {
    return this.cluster.time.run(this.#stop());
  }

  async #stop(): Promise<void> {
    await Promise.all(this.#metadata.map((one) => one.stop()));
    await Promise.all(this.#controllers.map((one) => one.stop()));
    await this.#importer?.stop();
    await Promise.all(this.nodes.map((node) => node.stop()));
    await Promise.all(this.#proxies.map((proxy) => proxy.stop()));
    await this.cluster.stop();
    await this.#admission?.stop();
    await this.#capi?.stop();
  }

  /** The real server, for what only one can be made to do. */
  get server(): TestCluster {
    if (this.#isMemory) throw new Error("the API server is in memory");
    return this.cluster as TestCluster;
  }

  /** With `admission` and a real server: what the policies were asked and said. */
  get admission(): AdmissionServer {
    if (this.#admission === null) throw new Error("the world has no admission server");
    return this.#admission;
  }

  get nodes(): NodeDaemon[] {
    return [...this.#nodes.values()];
  }

  node(name: string): NodeDaemon {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`there is no node ${name}`);
    return node;
  }

  /** A Node object and its daemon. */
  async startNode(name: string, options: StartOptions = {}): Promise<NodeDaemon> {
    const given = { ...this.#node, ...options };
    const { process = !this.#isMemory || given.kubeconfig !== undefined, way: link, ...more } = given;
    await this.kubevirt.createNode(name);
    const { kubeconfig = process ? await this.#kubeconfigOf(name) : HANDED_OVER } = given;
    if (process && this.cluster.time !== machineTime)
      throw new Error("a process has the machine's time: start the world with it");
    const way = process ? {} : { connect: await this.#connectionOf("holdfast-node", kubeconfig, name, link) };
    const attached = (pod: KubeObject, ifname: string) => this.kubevirt.attached(pod, ifname);
    const node = await NodeDaemon.start({ ...more, node: name, kubeconfig, time: this.cluster.time, attached, ...way });
    this.#nodes.set(name, node);
    // Once, however many nodes start together.
    if (!this.#hasController) this.#importing ??= this.startImporter();
    await this.#importing;
    return node;
  }

  /** A node whose daemon, a process, reaches the API server through a proxy only. */
  async startProxiedNode(name: string, options: StartOptions = {}): Promise<{ node: NodeDaemon; proxy: ApiProxy }> {
    const proxy = await this.startProxy();
    const kubeconfig = this.cluster.kubeconfig("holdfast-node", proxy.url, proxy.ca);
    return { node: await this.startNode(name, { kubeconfig, ...options }), proxy };
  }

  /** Before the API server. `headers` are added to every request. */
  async startProxy(headers: Readonly<Record<string, string>> = {}): Promise<ApiProxy> {
    const proxy = await ApiProxy.start(this.cluster, headers);
    this.#proxies.push(proxy);
    return proxy;
  }

  /**
   * A controller in this process whose interval and grace are a second. It is not waited for. `way`: what becomes of
   * its requests, with the API in memory.
   */
  async startController(flags: ControllerFlags = {}, way?: Link): Promise<Controller> {
    const settings = loadControllerSettings(
      {
        kubeconfig: HANDED_OVER,
        metricsAddress: "127.0.0.1:0",
        sweepIntervalSeconds: 1,
        sweepGraceSeconds: 1,
        logLevel: process.env.HOLDFAST_TEST_LOG ?? "silent",
        ...flags,
      },
      {},
    );
    const log = pino({ level: settings.logLevel });
    this.#hasController = true;
    const connect = await this.#connectionOf("holdfast-controller", settings.kubeconfig, undefined, way);
    const { Controller } = await import("../../../controller/controller.ts");
    const controller = new Controller(settings, log, this.cluster.time.clock, connect);
    const { time } = this.cluster;
    await time.run(controller.start());
    this.#controllers.push(controller);
    return time.waitedFor(controller, "stop");
  }

  /**
   * A controller's imports alone, without which no new network gives an address. A world with nodes that is started
   * without a controller has them.
   */
  async startImporter(): Promise<void> {
    const { Importer } = await import("./importer.ts");
    const connect = await this.#connectionOf("holdfast-controller", HANDED_OVER);
    this.#importer = new Importer(connect(HANDED_OVER, this.cluster.time.clock));
  }

  async stopImporter(): Promise<void> {
    await this.cluster.time.run(this.#importer?.stop() ?? Promise.resolve());
    this.#importer = null;
  }

  /** Cluster API's definitions and admission, with stand-ins of other kinds. A world has none of it by itself. */
  async startClusterApi(options: ClusterApiOptions = {}): Promise<ClusterApi> {
    const { ClusterApi } = await import("../machines/cluster-api.ts");
    this.#capi = await ClusterApi.install(this.cluster, options);
    return this.#capi;
  }

  /** A metadata server in this process, beside a node's daemon. `flags` are its settings. */
  async startMetadata(node: NodeDaemon, flags: MetadataFlags = {}): Promise<MetadataHere> {
    const { MetadataHere } = await import("./metadata-here.ts");
    const metadata = await MetadataHere.start(node.daemon, this.cluster.time, {
      flags,
      connect: this.cluster.connect("holdfast-metadata"),
    });
    this.#metadata.push(metadata);
    return metadata;
  }

  /** A plain pod on a node. */
  async guest(network: Network, node: string, name = this.#fresh("pod"), more: object = {}): Promise<Guest> {
    const networks = [{ name: network.name }];
    const pod = await this.kubevirt.createPod(NAMESPACE, name, { node, networks, ...more });
    return { pod, network, options: { config: network.config }, vm: null };
  }

  /** A started VM with a claim: its launcher pod. */
  async vmGuest(network: Network, node: string, name = this.#fresh("vm")): Promise<VmGuest> {
    const vm = await this.vm(name, network);
    const { pod } = await this.kubevirt.startVm(vm, node);
    return { pod, network, options: optionsOf(network), vm };
  }

  /** The target of a live migration. */
  async target(guest: VmGuest, node: string): Promise<VmGuest> {
    return { ...guest, pod: await this.kubevirt.migrate(guest.vm, node) };
  }

  /** `status.ips` of a VM's claim. */
  async published({ vm, network }: Guest): Promise<string[]> {
    const claim = vm && (await this.kubevirt.claim(vm, network.name));
    return claim?.status?.ips ?? [];
  }

  /** ADD on the pod's node; what it answers is remembered. */
  async add(pod: KubeObject, network: Network, options: Attaching = {}): Promise<CniAnswer> {
    const answer = await this.node(pod.spec.nodeName).add(pod, { config: network.config, ...options });
    if (answer.code !== 0) return answer;
    const { containerId, ifname } = containerOf(pod, options);
    const answered = { network: network.name, containerId, ifname, ips: ipsOf(answer) };
    this.#answered.set(interfaceKey(pod, network, ifname), answered);
    if (pod.metadata.labels?.["kubevirt.io"] !== undefined) await this.#report(pod);
    return answer;
  }

  /** What Multus writes into the pod when its interfaces are attached. */
  async #report({ metadata: { namespace, name, uid } }: KubeObject): Promise<void> {
    const path = pathOf(namespace, "pods", name);
    const pod = await this.cluster.api.find(path);
    if (pod?.metadata.uid !== uid) return;
    const elements = JSON.parse(pod.metadata.annotations?.[NETWORKS] ?? "[]");
    const status = [...this.#answered].flatMap(([key, { network, ifname, ips }]) => {
      if (key !== interfaceKey(pod, { name: network }, ifname)) return [];
      const element = elements.find((one: KubeObject) => one.interface === ifname);
      const nad = `${element?.namespace ?? namespace}/${element?.name ?? network}`;
      return [{ name: nad, interface: ifname, ips: ips.map((ip) => ip.split("/")[0]) }];
    });
    const annotations = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status) };
    await this.cluster.api.patch(path, { metadata: { annotations } });
  }

  /** ADD that succeeds; the addresses. */
  async given(pod: KubeObject, network: Network, options: Attaching = {}): Promise<string[]> {
    const answer = await this.add(pod, network, options);
    expect(answer.code, answer.stdout).toBe(0);
    return ipsOf(answer);
  }

  /** ADD that is refused with a code; what it says. */
  async refused(pod: KubeObject, network: Network, code: number, options: Attaching = {}): Promise<string> {
    const answer = await this.add(pod, network, options);
    expect(answer.json(), answer.stdout).toMatchObject({ code });
    const { msg, details } = answer.json();
    return `${msg}; ${details}`;
  }

  async del(pod: KubeObject, network: Network, options: Attaching = {}): Promise<void> {
    const { containerId, ifname } = containerOf(pod, options);
    const key = interfaceKey(pod, network, ifname);
    if (this.#answered.get(key)?.containerId === containerId) this.#answered.delete(key);
    const answer = await this.node(pod.spec.nodeName).del(pod, { config: network.config, ...options });
    expect(answer.code, answer.stdout).toBe(0);
    // Of a pod that goes on, an interface was unplugged. Nobody is told while the API server is away.
    if (pod.metadata.labels?.["kubevirt.io"] !== undefined) await this.#report(pod).catch(() => {});
  }

  /** `address: owner's UID` of what is Bound, sorted. */
  async bound(network: Pick<Network, "name">): Promise<string[]> {
    const objects = (await this.allocations(network)).filter(({ status }) => status?.state === "Bound");
    return objects.map(({ spec }) => `${spec.address} ${spec.owner.uid}`).sort();
  }

  /** Whoever holds what this guest's answer says, as `bound` writes it. */
  async holding(guest: Guest, ips: readonly string[]): Promise<string[]> {
    const claim = guest.vm && (await this.kubevirt.claim(guest.vm, guest.network.name));
    const { uid } = (claim ?? guest.pod).metadata;
    return ips.map((ip) => `${ip} ${uid}`);
  }

  /** Once everything pending is sent, `check` finds nothing on any node, and exactly this is Bound on the network. */
  async settledWith(
    network: Network,
    guests: readonly (readonly [Guest, readonly string[]])[],
    nodes = this.nodes,
  ): Promise<void> {
    const wanted = await Promise.all(guests.map(([guest, ips]) => this.holding(guest, ips)));
    const text = [...new Set(wanted.flat())].sort();
    let bound: string[] = [];
    const same = async () => {
      bound = await this.bound(network);
      return JSON.stringify(bound) === JSON.stringify(text);
    };
    await this.until(same, "what is Bound", SETTLED_MS_MAX).catch(() => expect(bound).toEqual(text));
    for (const node of nodes) await checked(node);
  }

  /**
   * No node finds a fault; every address that `add` was answered is Bound as it was answered, and in use by one owner;
   * and machines, where there are some, are settled.
   */
  async settled(): Promise<void> {
    for (const node of this.nodes) await checked(node);
    await this.#capi?.settled();
    const objects = new Map<string, KubeObject>();
    for (const one of await this.cluster.api.list(ALLOCATIONS_PATH)) objects.set(one.metadata.name, one);
    const answeredTo = new Map<string, string>();
    for (const [key, { network, containerId, ifname, ips }] of this.#answered) {
      for (const ip of ips) {
        const object = objects.get(nameOf(network, ip));
        expect(object, `${ip}, answered to ${key}`).toMatchObject({
          spec: { network, address: ip },
          status: { state: "Bound" },
        });
        expect(Object.keys(object.status.attachments)).toContain(`${containerId}/${ifname}`);
        const other = answeredTo.get(object.metadata.name);
        answeredTo.set(object.metadata.name, key);
        if (object.spec.owner.kind !== "IPAMClaim") expect(other, `${ip} is answered twice`).toBeUndefined();
      }
    }
  }

  #fresh(kind: string): string {
    this.#count += 1;
    return `${kind}-${this.#count}`;
  }

  /** A connection that is handed over, or what a kubeconfig says. */
  async #connectionOf(user: Account, kubeconfig: string | null, node?: string, way?: Link): Promise<Connect> {
    if (way !== undefined) return (this.cluster as MemoryCluster).connect(user, node, way);
    if (kubeconfig === HANDED_OVER) return this.cluster.connect(user, node);
    return (await import("../../../kube/http/http-kube-api.ts")).connectOverHttp;
  }

  async #kubeconfigOf(node: string): Promise<string> {
    if (this.#admission === null) return this.cluster.kubeconfig("holdfast-node");
    const { asDaemonOf } = await import("../admission.ts");
    const proxy = await this.startProxy(asDaemonOf(node));
    return this.cluster.kubeconfig("admin", proxy.url, proxy.ca);
  }

  async #begin({ nodes = [], controller, node = {} }: WorldOptions): Promise<void> {
    this.#node = node;
    this.#hasController ||= controller !== undefined;
    await this.kubevirt.createNamespace(NAMESPACE);
    if (this.#isAdmitting && !this.#isMemory)
      this.#admission = await (await import("../admission.ts")).AdmissionServer.start(this.server);
    const started = await Promise.allSettled(nodes.map((name) => this.startNode(name)));
    for (const one of started) if (one.status === "rejected") throw one.reason;
    if (controller !== undefined) await this.startController(controller);
  }
}

/** What a pod's interface is called in messages. */
function interfaceKey(pod: KubeObject, network: Pick<Network, "name">, ifname: string): string {
  return `network ${network.name}, pod ${pod.metadata.name} ${pod.metadata.uid}, ${ifname}`;
}

/** The sandbox and interface that an attachment is of when the test does not say. */
function containerOf(
  pod: KubeObject,
  { containerId = `sandbox-${pod.metadata.uid}`, ifname = "net1" }: Attaching,
): { containerId: string; ifname: string } {
  return { containerId, ifname };
}
