import { expect } from "vitest";
import { parseInterfaceAddress } from "../../ipam/cidr.ts";
import { allocationName } from "../../store/kubernetes/object-names.ts";
import { type ClusterOptions, TestCluster } from "../harness/cluster.ts";
import { ControllerProcess } from "../harness/controller.ts";
import { type CniAnswer, until } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { KubeVirt, type Vm } from "../harness/kubevirt.ts";
import { type AttachmentOptions, NodeDaemon, type NodeOptions } from "../harness/node.ts";

export const NAMESPACE = "shop";
export const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
/** Far above what a daemon needs to tell the API server what it owes. */
const CLEAN_MS_MAX = 30_000;

export interface SceneOptions {
  readonly nodes: readonly string[];
  readonly cluster?: ClusterOptions;
  /** Flags of a controller that runs beside the nodes. */
  readonly controller?: Readonly<Record<string, string | number | boolean>>;
  readonly node?: Partial<NodeOptions>;
}

/** A network as tests use it: the NAD in the cluster, and what a runtime passes on of it. */
export interface TestNetwork {
  readonly name: string;
  readonly config: string;
}

interface Answered {
  readonly node: NodeDaemon;
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
  readonly ips: readonly string[];
}

/** A cluster with nodes, and everything their daemons have answered and not been told to end. */
export class Scene {
  readonly cluster: TestCluster;
  readonly kubevirt: KubeVirt;
  readonly #nodes = new Map<string, NodeDaemon>();
  readonly #answered = new Map<string, Answered>();
  #controller: ControllerProcess | null = null;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.kubevirt = new KubeVirt(cluster.api);
  }

  static async start(options: SceneOptions): Promise<Scene> {
    const scene = new Scene(await TestCluster.start(options.cluster));
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
    for (const node of this.#nodes.values()) await node.stop();
    await this.cluster.stop();
  }

  get nodes(): NodeDaemon[] {
    return [...this.#nodes.values()];
  }

  get controller(): ControllerProcess {
    if (this.#controller === null) throw new Error("the scene has no controller");
    return this.#controller;
  }

  node(name: string): NodeDaemon {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`the scene has no node ${name}`);
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

  /** A plain pod with one interface, net1, in a network. */
  pod(name: string, node: string, network: TestNetwork, more: object = {}): Promise<KubeObject> {
    const networks = [{ name: network.name, ...more }];
    return this.kubevirt.createPod(NAMESPACE, name, { node, networks });
  }

  /** ADD on the pod's node; what it answers is remembered. */
  async add(
    pod: KubeObject,
    network: TestNetwork,
    options: Partial<AttachmentOptions> = {},
  ): Promise<CniAnswer> {
    const node = this.node(pod.spec.nodeName);
    const answer = await node.add(pod, { config: network.config, ...options });
    if (answer.code !== 0) return answer;
    const key = keyOf(pod, network, options);
    const ips = answer.json().ips.map((ip: { address: string }) => ip.address);
    this.#answered.set(key.text, { node, network: network.name, ...key, ips });
    return answer;
  }

  /** ADD that succeeds; the addresses. */
  async given(
    pod: KubeObject,
    network: TestNetwork,
    options: Partial<AttachmentOptions> = {},
  ): Promise<string[]> {
    const answer = await this.add(pod, network, options);
    expect(answer.code, answer.stdout).toBe(0);
    return ipsOf(answer);
  }

  /** ADD that is refused with a code; its message. */
  async refused(
    pod: KubeObject,
    network: TestNetwork,
    code: number,
    options: Partial<AttachmentOptions> = {},
  ): Promise<string> {
    const answer = await this.add(pod, network, options);
    expect(answer.stdout).not.toBe("");
    const { code: said, msg, details } = answer.json();
    expect(said, answer.stdout).toBe(code);
    return `${msg}; ${details}`;
  }

  async del(pod: KubeObject, network: TestNetwork, options: Partial<AttachmentOptions> = {}): Promise<void> {
    this.#answered.delete(keyOf(pod, network, options).text);
    const answer = await this.node(pod.spec.nodeName).del(pod, { config: network.config, ...options });
    expect(answer.code, answer.stdout).toBe(0);
  }

  /** The allocations of a network, of whatever state. */
  async allocations(network: TestNetwork): Promise<KubeObject[]> {
    const all = await this.cluster.api.list(ALLOCATIONS);
    return all.filter(({ spec }) => spec.network === network.name);
  }

  /** The allocation of an address, or null. */
  allocation(network: TestNetwork, address: string): Promise<KubeObject | null> {
    const name = allocationName(network.name, parseInterfaceAddress(address).address);
    return this.cluster.api.find(`${ALLOCATIONS}/${name}`);
  }

  /** Waits until an address is Bound, Cooling or, null, has no object. */
  async untilState(network: TestNetwork, address: string, state: string | null): Promise<void> {
    await until(
      async () => ((await this.allocation(network, address))?.status.state ?? null) === state,
      `${address} of ${network.name} to be ${state}`,
    );
  }

  /** A claim without VM. `status` is what somebody has filled in. */
  async claim(
    name: string,
    network: string,
    options: {
      readonly spec?: object;
      readonly ips?: readonly string[];
      readonly conditions?: object[];
    } = {},
  ): Promise<KubeObject> {
    const path = pathOf(NAMESPACE, "ipamclaims", "", CLAIMS);
    const claim = await this.cluster.api.create(path, {
      apiVersion: CLAIMS,
      kind: "IPAMClaim",
      metadata: { name, namespace: NAMESPACE },
      spec: { network, interface: "", ...options.spec },
    });
    const { ips, conditions } = options;
    if (ips === undefined && conditions === undefined) return claim;
    const status = { ips: ips ?? [], ...(conditions === undefined ? {} : { conditions }) };
    return this.cluster.api.patch(`${path}/${name}/status`, { status });
  }

  readClaim(name: string): Promise<KubeObject | null> {
    return this.cluster.api.find(pathOf(NAMESPACE, "ipamclaims", name, CLAIMS));
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

  /** The message of the event that tells a pod, or another object, something. */
  async untilEvent(object: KubeObject, reason: string): Promise<string> {
    let found: KubeObject;
    await until(async () => {
      const events = await this.cluster.api.list(pathOf(object.metadata.namespace, "events"));
      found = events.find(
        (event) => event.reason === reason && event.involvedObject.uid === object.metadata.uid,
      );
      return found !== undefined;
    }, `an event ${reason} on ${object.metadata.name}`);
    return found.message;
  }

  /** No node finds a fault, and every address in use is Bound, attached as it was answered, and one owner's. */
  async expectClean(): Promise<void> {
    for (const node of this.nodes) await untilClean(node);
    const objects = new Map<string, KubeObject>();
    for (const object of await this.cluster.api.list(ALLOCATIONS)) objects.set(object.metadata.name, object);
    const claimless = new Map<string, string>();
    for (const [key, { network, containerId, ifname, ips }] of this.#answered) {
      for (const ip of ips) {
        const name = allocationName(network, parseInterfaceAddress(ip).address);
        const object = objects.get(name);
        expect(object, `${ip} of ${network}, answered to ${key}`).toMatchObject({
          spec: { network, address: ip },
          status: { state: "Bound" },
        });
        expect(Object.keys(object.status.attachments)).toContain(`${containerId}.${ifname}`);
        if (object.spec.owner.kind === "IPAMClaim") continue;
        expect(claimless.get(name), `${ip} of ${network} is answered twice`).toBeUndefined();
        claimless.set(name, key);
      }
    }
  }

  async #begin({ nodes, controller, node }: SceneOptions): Promise<void> {
    await this.kubevirt.createNamespace(NAMESPACE);
    const kubeconfig = this.cluster.kubeconfig("holdfast-node");
    const launch = async (name: string) => {
      await this.kubevirt.createNode(name);
      this.#nodes.set(name, await NodeDaemon.start({ ...node, node: name, kubeconfig }));
    };
    const started = await Promise.allSettled(nodes.map(launch));
    for (const one of started) if (one.status === "rejected") throw one.reason;
    if (controller === undefined) return;
    this.#controller = await ControllerProcess.start({
      kubeconfig: this.cluster.kubeconfig("holdfast-controller"),
      flags: controller,
    });
  }
}

/** The configuration of a network that most tests can use. */
export function configOf(name: string, ipam: object = {}, plugin: object = {}): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    allowPersistentIPs: true,
    ...plugin,
    ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/24", ...ipam },
  });
}

export function ipsOf(answer: CniAnswer): string[] {
  return answer.json().ips.map((ip: { address: string }) => ip.address);
}

async function untilClean(node: NodeDaemon): Promise<void> {
  let last = { code: -1, stdout: "", stderr: "" };
  const clean = async () => {
    last = await node.daemon.cli("check");
    return last.code === 0;
  };
  await until(clean, "a clean check", CLEAN_MS_MAX).catch(() => {});
  expect(last.code, `check on ${node.name}: ${last.stdout}${last.stderr}`).toBe(0);
}

function keyOf(
  pod: KubeObject,
  network: TestNetwork,
  { containerId = `sandbox-${pod.metadata.uid}`, ifname = "net1" }: Partial<AttachmentOptions>,
): { text: string; containerId: string; ifname: string } {
  return { text: `${network.name} ${containerId} ${ifname}`, containerId, ifname };
}
