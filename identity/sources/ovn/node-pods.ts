import type { PodIdentity } from "../../../allocations/records.ts";
import { formatAddress } from "../../../ipam/space/address.ts";
import { formatInterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { PodView } from "../../../kube/views/pod-view.ts";
import { BoundedMap } from "../../../platform/bounded-map.ts";
import type { PodInterfaces, RunningPod } from "../../allocation-source.ts";
import { type IdentityInterface, METADATA_ADDRESS } from "../../wire.ts";
import { type OvnInterface, type OvnPod, ovnPodOf, readOvnConfig } from "./objects.ts";

/** Configurations that were read are remembered: a node sees those of its own pods' networks. */
const CONFIGS_REMEMBERED_MAX = 1_000;
/** Characters of their texts together: each edit of a NAD makes another one. */
const CONFIGS_CHARS_MAX = 4 * 1024 * 1024;

export interface OvnNodePodsParts {
  readonly node: string;
  /** The pods of this node, by `namespace/name`. */
  readonly pods: () => ReadonlyMap<string, PodView>;
  /** `spec.config` of a NetworkAttachmentDefinition, by `namespace/name`. */
  readonly nadConfig: (key: string) => string | undefined;
  /** Networks whose guests this node serves with metadata. */
  readonly served: () => readonly string[];
}

type OvnConfig = ReturnType<typeof readOvnConfig>;

/** What OVN-Kubernetes gave the pods of a node, by their annotations; never that of a pod which does not run. */
export class OvnNodePods implements PodInterfaces {
  readonly #parts: OvnNodePodsParts;
  readonly #read = new WeakMap<PodView, OvnPod | null>();
  readonly #configs = new BoundedMap<string, OvnConfig>(CONFIGS_REMEMBERED_MAX, {
    sizeMax: CONFIGS_CHARS_MAX,
    sizeOf: (_, text) => text.length,
  });

  constructor(parts: OvnNodePodsParts) {
    this.#parts = parts;
  }

  podOn(uid: string, network: string): RunningPod | null {
    for (const view of this.#parts.pods().values()) {
      if (view.uid !== uid) continue;
      const pod = this.#running(view);
      if (pod === null || !pod.networks.some((one) => this.#configOf(one)?.network === network)) return null;
      const { namespace, name, creationTimestamp: since } = pod;
      return { namespace, name, uid, node: this.#parts.node, since };
    }
    return null;
  }

  of({ namespace, name, uid }: PodIdentity): readonly IdentityInterface[] {
    const view = this.#parts.pods().get(`${namespace}/${name}`);
    const pod = view?.uid === uid ? this.#running(view) : null;
    return pod === null ? [] : pod.networks.flatMap((one) => this.#interface(pod, one));
  }

  /** The networks that pods of this node are on, whether or not their containers run yet. */
  networks(): Set<string> {
    const found = new Set<string>();
    for (const view of this.#parts.pods().values()) {
      for (const one of (view.stopped ? null : this.#ovnPod(view))?.networks ?? []) {
        const network = this.#configOf(one)?.network;
        if (network !== undefined) found.add(network);
      }
    }
    return found;
  }

  #running(view: PodView): OvnPod | null {
    const pod = view.stopped ? null : this.#ovnPod(view);
    return pod?.running ? pod : null;
  }

  #ovnPod(view: PodView): OvnPod | null {
    const known = this.#read.get(view);
    if (known !== undefined) return known;
    const pod = ovnPodOf(view);
    this.#read.set(view, pod);
    return pod;
  }

  #configOf({ nad }: OvnInterface): OvnConfig {
    const text = this.#parts.nadConfig(nad);
    if (text === undefined) return null;
    if (!this.#configs.has(text)) this.#configs.set(text, readOvnConfig(text));
    return this.#configs.get(text) ?? null;
  }

  #interface({ namespace, name, uid }: OvnPod, one: OvnInterface): IdentityInterface[] {
    const config = this.#configOf(one);
    if (config === null) return [];
    const { network, mtu } = config;
    return [
      {
        network,
        interface: one.interface,
        owner: { kind: "pod", uid, interface: one.interface ?? "", namespace, name },
        claim: null,
        addresses: one.addresses.map((held) => {
          const gateway = one.gateways.find(({ family }) => family === held.address.family);
          const address = formatInterfaceAddress(held);
          return gateway ? { address, gateway: formatAddress(gateway) } : { address };
        }),
        mac: one.mac,
        mtu,
        routes: [],
        dns: {},
        metadata: this.#parts.served().includes(network) ? { address: METADATA_ADDRESS, tokens: "optional" } : null,
        source: "ovn-kubernetes",
      },
    ];
  }
}
