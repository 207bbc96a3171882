import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import type { World } from "../harness/world/world.ts";

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const POOLS = "whereabouts.cni.cncf.io/v1alpha1";

/** A NAD's configuration while whereabouts still gives its addresses. */
export function whereaboutsConfig(name: string, range: string): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    ipam: { type: "whereabouts", range },
  });
}

/** What another IPAM left behind in a cluster. */
export class Leftovers {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** A running pod of some node whose additional interface, net1, has addresses, as Multus reports them. */
  pod(
    name: string,
    nad: string,
    ips: readonly string[],
    more: { readonly namespace?: string; readonly networks?: readonly object[]; readonly node?: string } = {},
  ): Promise<KubeObject> {
    const { namespace = NAMESPACE, node = "node-x" } = more;
    const networks = more.networks ?? [{ name: nad.split("/")[1], namespace: nad.split("/")[0] }];
    return this.#world.kubevirt.createPod(namespace, name, {
      node,
      networks: networks as never,
      annotations: { [STATUS]: JSON.stringify([{ name: nad, interface: "net1", ips }]) },
    });
  }

  /** A running pod whose own interface has addresses, as the kubelet reports them. `status` is its network-status. */
  async primaryPod(
    name: string,
    ips: readonly string[],
    more: {
      readonly node?: string;
      readonly status?: readonly object[];
      readonly hostNetwork?: boolean;
    } = {},
  ): Promise<KubeObject> {
    const { node = "node-x", status, hostNetwork = false } = more;
    const path = pathOf(NAMESPACE, "pods");
    const { api } = this.#world.cluster;
    await api.create(path, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace: NAMESPACE,
        annotations: status === undefined ? {} : { [STATUS]: JSON.stringify(status) },
      },
      spec: { nodeName: node, hostNetwork, containers: [{ name: "main", image: "none" }] },
    });
    const podIPs = ips.map((ip) => ({ ip }));
    return api.patch(`${path}/${name}/status`, { status: { phase: "Running", podIP: ips[0], podIPs } });
  }

  /** An IPPool of whereabouts. */
  async pool(range: string, allocations: Readonly<Record<string, object>>): Promise<string> {
    const name = range.replaceAll(/[:/]/g, "-");
    await this.#world.cluster.api.create(pathOf("kube-system", "ippools", "", POOLS), {
      apiVersion: POOLS,
      kind: "IPPool",
      metadata: { name, namespace: "kube-system" },
      spec: { range, allocations },
    });
    return pathOf("kube-system", "ippools", name, POOLS);
  }

  /** Changes a NAD's configuration, and waits until every node knows it. */
  async editNad(name: string, config: string, namespace = NAMESPACE): Promise<KubeObject> {
    const path = pathOf(namespace, "network-attachment-definitions", name, "k8s.cni.cncf.io/v1");
    return this.#world.cluster.api.patch(path, { spec: { config } });
  }

  networkObject(network: string): Promise<KubeObject | null> {
    return this.#world.cluster.api.find(`/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/${network}`);
  }
}
