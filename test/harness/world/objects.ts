import { newAllocation } from "../../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { labelSelector } from "../../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationAttachment,
  type AllocationOwner,
  LABEL_NETWORK,
} from "../../../kube/objects.ts";
import { HOLDFAST, run } from "../daemon.ts";
import type { KubeObject } from "../kube-api.ts";
import { pathOf } from "../kube-pods.ts";
import { KubeVirt, type Vm } from "../kubevirt.ts";
import type { TestTime } from "../wait.ts";
import type { Cluster } from "./cluster.ts";
import { configOf, NAMESPACE, type Network, nameOf } from "./network.ts";

const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
const NADS = "k8s.cni.cncf.io/v1";
const TIME = "2026-01-01T00:00:00.000Z";
/** Looks of `stays`, and the time between them, ms: several passes of a controller in a hurry. */
const STAYS_LOOKS = 8;
const STAYS_MS = 500;

/** What a claim has beside its network. `ips` and `conditions` are what somebody has filled in. */
export interface ClaimParts {
  readonly spec?: object;
  readonly ips?: readonly string[];
  readonly conditions?: object[];
}

/** The objects of a cluster, as tests put them in place and look at them. */
export class WorldObjects {
  readonly cluster: Cluster;
  /** What users, schedulers, kubelets and KubeVirt do, on request of the test. */
  readonly kubevirt: KubeVirt;

  constructor(cluster: Cluster) {
    this.cluster = cluster;
    this.kubevirt = new KubeVirt(cluster.api, cluster.time);
  }

  get time(): TestTime {
    return this.cluster.time;
  }

  /** Polls until true, in the world's time. */
  until(...args: Parameters<TestTime["until"]>): Promise<void> {
    return this.cluster.time.until(...args);
  }

  /** Lets the world's time pass. */
  advance(ms: number): Promise<void> {
    return this.cluster.time.advance(ms);
  }

  /** The command line, as a process of its own, for which time stands still. */
  cli(...args: readonly string[]): ReturnType<typeof run> {
    return this.cliWith({}, ...args);
  }

  /** The same, with variables of its environment. */
  cliWith(env: Readonly<Record<string, string>>, ...args: readonly string[]): ReturnType<typeof run> {
    const { time } = this.cluster;
    return time.run(run(process.execPath, [HOLDFAST, ...args], { ...time.environment, ...env }));
  }

  /** A network with its NAD; `plugin` are keys beside the `ipam` block. */
  async network(name: string, ipam: object = {}, plugin: object = {}): Promise<Network> {
    const config = configOf(name, ipam, plugin);
    await this.kubevirt.createNad(NAMESPACE, name, config);
    return { name, config };
  }

  /** The same, once a controller has imported what was in use of it. */
  async importedNetwork(name: string, ipam: object = {}): Promise<Network> {
    const network = await this.network(name, ipam);
    await this.until(
      async () => (await this.networkObject(name))?.status?.conditions?.[0]?.status === "True",
      `${name} to be imported`,
    );
    return network;
  }

  /** The IPNetwork, or null. */
  networkObject(name: string): Promise<KubeObject | null> {
    return this.cluster.api.find(`/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/${name}`);
  }

  editNad(name: string, config: string, namespace = NAMESPACE): Promise<KubeObject> {
    const path = pathOf(namespace, "network-attachment-definitions", name, NADS);
    return this.cluster.api.patch(path, { spec: { config } });
  }

  /** A stopped VM with one interface in each network. */
  vm(name: string, ...networks: readonly Network[]): Promise<Vm> {
    const wanted = networks.map((one) => ({ logical: one.name, nad: one.name, network: one.name }));
    return this.kubevirt.createVm(NAMESPACE, name, wanted);
  }

  /** A plain pod with one interface, net1, in a network. `more` are keys of its network selection element. */
  pod(name: string, node: string, network: Network, more: object = {}): Promise<KubeObject> {
    return this.kubevirt.createPod(NAMESPACE, name, { node, networks: [{ name: network.name, ...more }] });
  }

  /** A claim without VM. */
  async claim(name: string, network: string, { spec, ips, conditions }: ClaimParts = {}): Promise<KubeObject> {
    const claim = await this.cluster.api.create(pathOf(NAMESPACE, "ipamclaims", "", CLAIMS), {
      apiVersion: CLAIMS,
      kind: "IPAMClaim",
      metadata: { name, namespace: NAMESPACE },
      spec: { network, interface: "", ...spec },
    });
    if (ips === undefined && conditions === undefined) return claim;
    return this.publish(name, { ips: ips ?? [], ...(conditions === undefined ? {} : { conditions }) });
  }

  /** Fills in a claim's status. */
  publish(name: string, status: object): Promise<KubeObject> {
    return this.cluster.api.patch(`${pathOf(NAMESPACE, "ipamclaims", name, CLAIMS)}/status`, { status });
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
    await this.until(async () => {
      const conditions: KubeObject[] = (await this.readClaim(name))?.status?.conditions ?? [];
      found = conditions.find(({ type }) => type === "IPsAllocated");
      return found?.reason === reason;
    }, `claim ${name} to say ${reason}`);
    return found;
  }

  async untilOwnerPod(name: string, pod: KubeObject): Promise<void> {
    await this.until(
      async () => (await this.readClaim(name))?.status?.ownerPod?.name === pod.metadata.name,
      `claim ${name} to follow pod ${pod.metadata.name}`,
    );
  }

  /** The message of the event that tells an object something. */
  async untilEvent({ metadata }: KubeObject, reason: string): Promise<string> {
    const { namespace, name, uid } = metadata;
    let found: KubeObject;
    await this.until(async () => {
      const events = await this.cluster.api.list(pathOf(namespace, "events"));
      found = events.find((event) => event.reason === reason && event.involvedObject.uid === uid);
      return found !== undefined;
    }, `an event ${reason} on ${name}`);
    return found.message;
  }

  /** The allocations of a network, of whatever state. */
  allocations({ name }: Pick<Network, "name">): Promise<KubeObject[]> {
    const selector = encodeURIComponent(labelSelector(LABEL_NETWORK, name));
    return this.cluster.api.list(`${ALLOCATIONS_PATH}?labelSelector=${selector}`);
  }

  /** The allocation of an address, or null. */
  allocation(network: string | Network, address: string): Promise<KubeObject | null> {
    const name = typeof network === "string" ? network : network.name;
    return this.cluster.api.find(`${ALLOCATIONS_PATH}/${nameOf(name, address)}`);
  }

  /** An allocation as a daemon has made one. */
  allocate(
    network: string,
    address: string,
    owner: AllocationOwner,
    attachment: AllocationAttachment | null = null,
  ): Promise<KubeObject> {
    const one = parseInterfaceAddress(address);
    return this.cluster.api.create(ALLOCATIONS_PATH, newAllocation(network, one, { owner, attachment }, TIME));
  }

  /** Bound, Cooling, or none: there is no object. */
  async state(network: string | Network, address: string): Promise<string> {
    return (await this.allocation(network, address))?.status.state ?? "none";
  }

  async becomes(network: string | Network, address: string, state: string): Promise<void> {
    await this.until(async () => (await this.state(network, address)) === state, `${address} to be ${state}`);
  }

  /** Many passes of a controller later it is still Bound. */
  async stays(network: string, address: string): Promise<void> {
    for (let look = 0; look < STAYS_LOOKS; look++) {
      await this.advance(STAYS_MS);
      const state = await this.state(network, address);
      if (state !== "Bound") throw new Error(`${address} is ${state}, and should have been kept`);
    }
  }

  /** Waits until the controller has brought a claim's list in line with what the claim has. */
  async untilLists(claim: string, ips: readonly string[]): Promise<void> {
    let listed: unknown;
    const isListed = async () => {
      listed = (await this.readClaim(claim)).status?.ips ?? [];
      return JSON.stringify(listed) === JSON.stringify(ips);
    };
    const what = `claim ${claim} to list ${ips.join() || "nothing"}`;
    await this.until(isListed, what).catch((error: Error) => {
      throw new Error(`${error.message}: it lists ${JSON.stringify(listed)}`);
    });
  }

  /** Waits until exactly these pods use an address. */
  async untilUsers(network: Network, address: string, ...pods: readonly KubeObject[]): Promise<void> {
    const names = pods.map(({ metadata }) => metadata.name).sort();
    await this.until(
      async () => {
        const object = await this.allocation(network, address);
        const users = Object.values(object?.status.attachments ?? {}).map((one) => (one as KubeObject).pod.name);
        return users.sort().join() === names.join();
      },
      `${address} to be used by ${names.join() || "nobody"}`,
    );
  }
}

export function claimOwner({ metadata }: KubeObject): AllocationOwner {
  const { namespace, name, uid } = metadata;
  return { kind: "IPAMClaim", namespace, name, uid, interface: "" };
}

export function podOwner({ metadata }: KubeObject): AllocationOwner {
  const { namespace, name, uid } = metadata;
  return { kind: "Pod", namespace, name, uid, interface: "net1" };
}

/** The pod's sandbox on its node. */
export function attachmentOf({ metadata, spec }: KubeObject): AllocationAttachment {
  const { namespace, name, uid } = metadata;
  return {
    containerID: `sandbox-${uid}`,
    interface: "net1",
    node: spec.nodeName,
    pod: { namespace, name, uid },
    since: TIME,
  };
}
