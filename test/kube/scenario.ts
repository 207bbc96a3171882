import pino from "pino";
import { expect } from "vitest";
import { Controller } from "../../controller/controller.ts";
import { type ControllerSettings, loadControllerSettings } from "../../controller/settings.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { systemClock } from "../../platform/time.ts";
import { AdmissionServer, asDaemonOf } from "../harness/admission.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import { type ClusterOptions, TestCluster } from "../harness/cluster.ts";
import { type CniAnswer, until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { KubeVirt, type Vm } from "../harness/kubevirt.ts";
import { NodeDaemon, type NodeOptions } from "../harness/node.ts";
import {
  type Attaching,
  configOf,
  containerOf,
  expectCheckPasses,
  interfaceKey,
  ipsOf,
  nameOf,
  type TestNetwork,
} from "./scenario-parts.ts";

export const NAMESPACE = "shop";
const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
export interface ScenarioOptions {
  readonly nodes: readonly string[];
  readonly cluster?: ClusterOptions;
  /** Settings of a controller that runs beside the nodes, in this process. */
  readonly controller?: Partial<Record<keyof ControllerSettings, unknown>>;
  readonly node?: Partial<NodeOptions>;
  /**
   * The API server enforces the policies of deploy/admission, and each daemon has a token of its node. Default: where
   * HOLDFAST_TEST_ADMISSION is "on".
   */
  readonly admission?: boolean;
}

interface Answered {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
  readonly ips: readonly string[];
}

/** A cluster with nodes, and everything their daemons have answered and not been told to end. */
export class Scenario {
  readonly cluster: TestCluster;
  readonly kubevirt: KubeVirt;
  readonly #nodes = new Map<string, NodeDaemon>();
  /** By interface: a new sandbox of a pod takes the place of the one before. */
  readonly #answered = new Map<string, Answered>();
  #controller: Controller | null = null;
  readonly #proxies: ApiProxy[] = [];
  #admission: AdmissionServer | null = null;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.kubevirt = new KubeVirt(cluster.api);
  }

  static async start(options: ScenarioOptions): Promise<Scenario> {
    const scene = new Scenario(await TestCluster.start(options.cluster));
    try {
      await scene.#begin(options);
      return scene;
    } catch (error) {
      await scene.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.#controller?.stop();
    await Promise.all(this.nodes.map((node) => node.stop()));
    await Promise.all(this.#proxies.map((proxy) => proxy.stop()));
    await this.cluster.stop();
    await this.#admission?.stop();
  }

  /** With `admission`: what the policies were asked and said. */
  get admission(): AdmissionServer {
    if (this.#admission === null) throw new Error("the scenario has no admission");
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

  /** A NAD in the namespace of the tests; `plugin` are keys beside the `ipam` block. */
  async network(name: string, ipam: object = {}, plugin: object = {}): Promise<TestNetwork> {
    const config = configOf(name, ipam, plugin);
    await this.kubevirt.createNad(NAMESPACE, name, config);
    return { name, config };
  }

  /** A stopped VM with one interface in each network. */
  vm(name: string, ...networks: readonly TestNetwork[]): Promise<Vm> {
    const wanted = networks.map((one) => ({ logical: one.name, nad: one.name, network: one.name }));
    return this.kubevirt.createVm(NAMESPACE, name, wanted);
  }

  /** A plain pod with one interface, net1, in a network. `more` are keys of its network selection element. */
  pod(name: string, node: string, network: TestNetwork, more: object = {}): Promise<KubeObject> {
    return this.kubevirt.createPod(NAMESPACE, name, { node, networks: [{ name: network.name, ...more }] });
  }

  /** ADD on the pod's node; what it answers is remembered. */
  async add(pod: KubeObject, network: TestNetwork, options: Attaching = {}): Promise<CniAnswer> {
    const answer = await this.node(pod.spec.nodeName).add(pod, { config: network.config, ...options });
    if (answer.code !== 0) return answer;
    const { containerId, ifname } = containerOf(pod, options);
    const answered = { network: network.name, containerId, ifname, ips: ipsOf(answer) };
    this.#answered.set(interfaceKey(pod, network, ifname), answered);
    return answer;
  }

  /** ADD that succeeds; the addresses. */
  async given(pod: KubeObject, network: TestNetwork, options: Attaching = {}): Promise<string[]> {
    const answer = await this.add(pod, network, options);
    expect(answer.code, answer.stdout).toBe(0);
    return ipsOf(answer);
  }

  /** ADD that is refused with a code; what it says. */
  async refused(
    pod: KubeObject,
    network: TestNetwork,
    code: number,
    options: Attaching = {},
  ): Promise<string> {
    const answer = await this.add(pod, network, options);
    expect(answer.json(), answer.stdout).toMatchObject({ code });
    const { msg, details } = answer.json();
    return `${msg}; ${details}`;
  }

  async del(pod: KubeObject, network: TestNetwork, options: Attaching = {}): Promise<void> {
    const { containerId, ifname } = containerOf(pod, options);
    const key = interfaceKey(pod, network, ifname);
    if (this.#answered.get(key)?.containerId === containerId) this.#answered.delete(key);
    const answer = await this.node(pod.spec.nodeName).del(pod, { config: network.config, ...options });
    expect(answer.code, answer.stdout).toBe(0);
  }

  /** The allocations of a network, of whatever state. */
  async allocations(network: TestNetwork): Promise<KubeObject[]> {
    const all = await this.cluster.api.list(ALLOCATIONS_PATH);
    return all.filter(({ spec }) => spec.network === network.name);
  }

  /** The allocation of an address, or null. */
  allocation(network: TestNetwork, address: string): Promise<KubeObject | null> {
    return this.cluster.api.find(`${ALLOCATIONS_PATH}/${nameOf(network.name, address)}`);
  }

  /** Waits until an address is Bound, Cooling or, null, has no object. */
  async untilState(network: TestNetwork, address: string, state: string | null): Promise<void> {
    await until(
      async () => ((await this.allocation(network, address))?.status.state ?? null) === state,
      `${address} of ${network.name} to be ${state}`,
    );
  }

  /** Waits until exactly these pods use an address. */
  async untilUsers(network: TestNetwork, address: string, ...pods: readonly KubeObject[]): Promise<void> {
    const names = pods.map(({ metadata }) => metadata.name).sort();
    await until(
      async () => {
        const object = await this.allocation(network, address);
        const users = Object.values(object?.status.attachments ?? {}).map(
          (one) => (one as KubeObject).pod.name,
        );
        return users.sort().join() === names.join();
      },
      `${address} to be used by ${names.join() || "nobody"}`,
    );
  }

  /** A claim without VM. `ips` and `conditions` are what somebody has filled in. */
  async claim(
    name: string,
    network: string,
    more: { readonly spec?: object; readonly ips?: readonly string[]; readonly conditions?: object[] } = {},
  ): Promise<KubeObject> {
    const path = pathOf(NAMESPACE, "ipamclaims", "", CLAIMS);
    const claim = await this.cluster.api.create(path, {
      apiVersion: CLAIMS,
      kind: "IPAMClaim",
      metadata: { name, namespace: NAMESPACE },
      spec: { network, interface: "", ...more.spec },
    });
    const { ips, conditions } = more;
    if (ips === undefined && conditions === undefined) return claim;
    const status = { ips: ips ?? [], ...(conditions === undefined ? {} : { conditions }) };
    return this.cluster.api.patch(`${path}/${name}/status`, { status });
  }

  readClaim(name: string): Promise<KubeObject | null> {
    return this.cluster.api.find(pathOf(NAMESPACE, "ipamclaims", name, CLAIMS));
  }

  /** Asks for its deletion; finalizers may keep it. */
  async deleteClaim(name: string): Promise<void> {
    await this.cluster.api.delete(pathOf(NAMESPACE, "ipamclaims", name, CLAIMS));
  }

  /** The claim's condition, once it has this reason. */
  async untilReason(name: string, reason: string): Promise<KubeObject> {
    let found: KubeObject;
    await until(async () => {
      const conditions: KubeObject[] = (await this.readClaim(name))?.status?.conditions ?? [];
      found = conditions.find(({ type }) => type === "IPsAllocated");
      return found?.reason === reason;
    }, `claim ${name} to say ${reason}`);
    return found;
  }

  async untilOwnerPod(name: string, pod: KubeObject): Promise<void> {
    await until(
      async () => (await this.readClaim(name))?.status?.ownerPod?.name === pod.metadata.name,
      `claim ${name} to follow pod ${pod.metadata.name}`,
    );
  }

  /** The message of the event that tells an object something. */
  async untilEvent(object: KubeObject, reason: string): Promise<string> {
    const { namespace, name, uid } = object.metadata;
    let found: KubeObject;
    await until(async () => {
      const events = await this.cluster.api.list(pathOf(namespace, "events"));
      found = events.find((event) => event.reason === reason && event.involvedObject.uid === uid);
      return found !== undefined;
    }, `an event ${reason} on ${name}`);
    return found.message;
  }

  /** No node finds a fault; every address in use is Bound as it was answered, and in use by one owner. */
  async expectClean(): Promise<void> {
    for (const node of this.nodes) await expectCheckPasses(node);
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
        expect(Object.keys(object.status.attachments)).toContain(`${containerId}.${ifname}`);
        const other = answeredTo.get(object.metadata.name);
        answeredTo.set(object.metadata.name, key);
        if (object.spec.owner.kind !== "IPAMClaim") expect(other, `${ip} is answered twice`).toBeUndefined();
      }
    }
  }

  async #kubeconfigOf(node: string): Promise<string> {
    if (this.#admission === null) return this.cluster.kubeconfig("holdfast-node");
    const proxy = await ApiProxy.start(this.cluster, asDaemonOf(node));
    this.#proxies.push(proxy);
    return this.cluster.kubeconfig("admin", proxy.url);
  }

  async #begin({ nodes, controller, node, admission }: ScenarioOptions): Promise<void> {
    await this.kubevirt.createNamespace(NAMESPACE);
    if (admission ?? process.env.HOLDFAST_TEST_ADMISSION === "on")
      this.#admission = await AdmissionServer.start(this.cluster);
    const launch = async (name: string) => {
      await this.kubevirt.createNode(name);
      const kubeconfig = await this.#kubeconfigOf(name);
      this.#nodes.set(name, await NodeDaemon.start({ ...node, node: name, kubeconfig }));
    };
    const started = await Promise.allSettled(nodes.map(launch));
    for (const one of started) if (one.status === "rejected") throw one.reason;
    if (controller === undefined) return;
    const settings = loadControllerSettings(
      {
        kubeconfig: this.cluster.kubeconfig("holdfast-controller"),
        metricsAddress: "127.0.0.1:0",
        logLevel: "silent",
        ...controller,
      },
      {},
    );
    this.#controller = new Controller(settings, pino({ level: settings.logLevel }), systemClock);
    await this.#controller.start();
  }
}
