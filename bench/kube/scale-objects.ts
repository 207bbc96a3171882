import { randomUUID } from "node:crypto";
import { type Holder, newAllocation } from "../../allocations/allocation-object.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName, labelValue, nodeLabel } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type AllocationOwner, CLAIMS_PATH, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import type { KubeObject } from "../../test/harness/kube-api.ts";
import { besideApiServer, copied, IN_ETCD, SINCE, tenth, uidOf, WRITTEN_AT_ONCE } from "./fill.ts";
import { type KubeBench, NAMESPACE, NETWORK } from "./kube-bench.ts";

export const SUBNET = "10.0.0.0/16";
const PREFIX_LENGTH = 16;
const ADDRESSES = 65_532;
/** Coprime with that, so that the addresses that are taken lie apart, as on a network that has been used for long. */
const STEP = 7_919;
/** The network of which most of the addresses are taken. */
export const LARGE_NETWORK = "large";
const OTHER_NETWORKS = 98;
const PODS_PER_NODE = 20;

/** What is copied has these names, which occur nowhere else. */
const ORIGINAL = { network: "original-net", holder: "original-holder", node: "original-node", index: 65_533 };

/** What a cluster of a number of allocations holds. */
export class ScaleObjects {
  readonly #bench: KubeBench;
  readonly allocations: number;
  /** Six in ten, on one network. */
  readonly large: number;
  /** On the network that the node uses which is measured. */
  readonly used: number;
  /** Of pods with one or two interfaces. */
  readonly pods: number;
  /** Of VMs that are stopped. */
  readonly claims: number;
  readonly nodes: number;

  constructor(bench: KubeBench, allocations: number) {
    this.#bench = bench;
    this.allocations = allocations;
    this.large = Math.floor(allocations * 0.6);
    this.used = Math.floor(allocations * 0.01);
    this.pods = Math.floor(allocations * 0.6);
    this.claims = Math.floor(allocations * 0.1);
    this.nodes = Math.max(1, Math.floor(this.pods / PODS_PER_NODE));
  }

  nameOfClaim(index: number): string {
    return `claim-of-${index}`;
  }

  /** All networks but the two that a KubeBench has. */
  async define(): Promise<void> {
    await this.#bench.addNetwork(LARGE_NETWORK, SUBNET);
    for (let index = 0; index < OTHER_NETWORKS; index += 1) await this.#bench.addNetwork(`net-${index}`, SUBNET);
  }

  /**
   * Writes everything into etcd past the API server, as copies of what the server stored: with its managed fields.
   * `holders`: also the nodes and pods that have the addresses.
   */
  async write({ holders = true }: { readonly holders?: boolean } = {}): Promise<void> {
    const { cluster, kubevirt } = this.#bench;
    const { api } = cluster;
    const taken = new Set((await api.list(ALLOCATIONS_PATH)).map(({ metadata }) => metadata.name));
    const node = await kubevirt.createNode(ORIGINAL.node);
    const pod = await kubevirt.createPod(NAMESPACE, ORIGINAL.holder, {
      node: ORIGINAL.node,
      networks: [{ name: NETWORK }],
    });
    const claim = await this.#createClaim();
    const ofPod = await this.#createAllocation("Pod", pod);
    await this.#remove(`${ALLOCATIONS_PATH}/${ofPod.metadata.name}`);
    const ofClaim = await this.#createAllocation("IPAMClaim", claim);
    await this.#remove(`${ALLOCATIONS_PATH}/${ofClaim.metadata.name}`);
    await this.#remove(`${namespacedPath(PODS_PATH, NAMESPACE)}/${ORIGINAL.holder}`);
    await this.#remove(`${namespacedPath(CLAIMS_PATH, NAMESPACE)}/${ORIGINAL.holder}`);
    await this.#remove(`/api/v1/nodes/${ORIGINAL.node}`);
    const group = CLAIMS_PATH.split("/")[2];
    await besideApiServer(cluster, async () => {
      const [nodes, pods] = holders ? [this.nodes, this.pods] : [0, 0];
      await this.#writeCopies("minions", nodes, (index) => copied(node, this.#others(node, index, index)));
      await this.#writeCopies(`pods/${NAMESPACE}`, pods, (index) =>
        copied(pod, this.#others(pod, index, index % this.nodes)),
      );
      await this.#writeCopies(`${group}/ipamclaims/${NAMESPACE}`, this.claims, (index) =>
        this.#copyOfClaim(claim, index),
      );
      await this.#writeCopies(IN_ETCD, this.allocations, (index) => {
        const isClaims = index < this.claims;
        const copy = isClaims ? this.#copyOf(ofClaim, claim, index) : this.#copyOf(ofPod, pod, index);
        return taken.has(copy.metadata.name) ? null : copy;
      });
    });
  }

  async #remove(path: string): Promise<void> {
    const { api } = this.#bench.cluster;
    await api.patch(path, { metadata: { finalizers: null } });
    await api.delete(`${path}?gracePeriodSeconds=0`);
  }

  async #createClaim(): Promise<KubeObject> {
    const path = namespacedPath(CLAIMS_PATH, NAMESPACE);
    await this.#bench.cluster.api.create(path, {
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { name: ORIGINAL.holder, namespace: NAMESPACE },
      spec: { network: ORIGINAL.network, interface: "" },
    });
    const ips = [formatInterfaceAddress({ address: tenth(ORIGINAL.index), prefixLength: PREFIX_LENGTH })];
    return this.#bench.cluster.api.patch(`${path}/${ORIGINAL.holder}/status`, { status: { ips } });
  }

  #createAllocation(kind: "Pod" | "IPAMClaim", { metadata }: KubeObject): Promise<KubeObject> {
    const { namespace, name, uid } = metadata;
    const owner: AllocationOwner = { kind, namespace, name, uid, interface: kind === "Pod" ? "net1" : "" };
    const attachment = {
      ...{ containerID: uid, interface: "net1", node: ORIGINAL.node, since: SINCE },
      pod: { namespace, name, uid },
    };
    const holder: Holder = { owner, attachment: kind === "Pod" ? attachment : null };
    const one = { address: tenth(ORIGINAL.index), prefixLength: PREFIX_LENGTH };
    return this.#bench.cluster.api.create(ALLOCATIONS_PATH, newAllocation(ORIGINAL.network, one, holder, SINCE));
  }

  /** Claims come first; then the pods' first interfaces, then second ones. */
  #copyOf(allocation: KubeObject, holder: KubeObject, index: number): KubeObject {
    const { network, address } = this.#placeOf(index);
    const isClaim = index < this.claims;
    const number = isClaim ? index : (index - this.claims) % this.pods;
    const isSecond = !isClaim && index - this.claims >= this.pods;
    return copied(allocation, [
      [allocation.metadata.name, allocationName(network, tenth(address))],
      [`${formatAddress(tenth(ORIGINAL.index))}/`, `${formatAddress(tenth(address))}/`],
      [ORIGINAL.network, network],
      [allocation.metadata.uid, randomUUID()],
      ...(isSecond ? [["net1", "net2"] as const] : []),
      ...this.#others(holder, number, number % this.nodes, isClaim ? "claim" : "pod"),
    ]);
  }

  #copyOfClaim(claim: KubeObject, index: number): KubeObject {
    const { network, address } = this.#placeOf(index);
    return copied(claim, [
      [`${formatAddress(tenth(ORIGINAL.index))}/`, `${formatAddress(tenth(address))}/`],
      [ORIGINAL.network, network],
      ...this.#others(claim, index, 0, "claim"),
    ]);
  }

  #others(object: KubeObject, index: number, node: number, kind = "pod"): [string, string][] {
    const first = { pod: 0, claim: 10_000_000 }[kind] ?? 0;
    return [
      [object.metadata.uid, uidOf(first + index)],
      [labelValue(`${NAMESPACE}/${ORIGINAL.holder}`), labelValue(`${NAMESPACE}/${kind}-of-${index}`)],
      [ORIGINAL.holder, `${kind}-of-${index}`],
      [ORIGINAL.node, nameOfNode(node)],
      [nodeLabel(ORIGINAL.node), nodeLabel(nameOfNode(node))],
    ];
  }

  /** Which network an allocation is on, and its address there. Claims are on all of them. */
  #placeOf(index: number): { readonly network: string; readonly address: number } {
    // The order of the networks has nothing to do with that of the holders.
    const place = (index * STEP) % this.allocations;
    if (place < this.large) return { network: LARGE_NETWORK, address: addressAt(place) };
    const next = place - this.large;
    if (next < this.used) return { network: NETWORK, address: addressAt(next) };
    const rest = next - this.used;
    const address = addressAt(Math.floor(rest / OTHER_NETWORKS));
    return { network: `net-${rest % OTHER_NETWORKS}`, address };
  }

  async #writeCopies(path: string, count: number, copyOf: (index: number) => KubeObject | null): Promise<void> {
    for (let from = 0; from < count; from += WRITTEN_AT_ONCE) {
      const objects = new Map<string, KubeObject>();
      for (let index = from; index < Math.min(count, from + WRITTEN_AT_ONCE); index += 1) {
        const copy = copyOf(index);
        if (copy !== null) objects.set(`${path}/${copy.metadata.name}`, copy);
      }
      await this.#bench.cluster.writeEtcd(objects);
    }
  }
}

function nameOfNode(index: number): string {
  return `far-${index}`;
}

function addressAt(place: number): number {
  return 2 + ((place * STEP) % ADDRESSES);
}
