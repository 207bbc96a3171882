import { type PodNetwork, readPodNetworks } from "../../identity/sources/ovn/pod-networks.ts";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { readTexts } from "../../kube/views/object-metadata.ts";
import { POD_NETWORKS_ANNOTATION } from "../../kube/views/pod-view.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import type { Clock } from "../../platform/time.ts";
import type { LocalEndpoint } from "./services-endpoints.ts";

/** Verdicts remembered; beyond it the oldest is asked for again. */
const REMEMBERED_MAX = 5_000;
/** A pod that was refused may be about to be reported by its kubelet; it is looked at again after this, ms. */
const REFUSED_MS = 2_000;
/** A pod's network may be made anew, and its address be another's: a right one is looked at again after this, ms. */
const RIGHT_MS = 30_000;
const DEADLINE_MS = 3_000;

type PodName = NonNullable<LocalEndpoint["pod"]>;

interface PodVerdict {
  /** null: requests may go there. */
  readonly problem: string | null;
  /** Its networks of OVN-Kubernetes other than the cluster's default one. */
  readonly networks: readonly PodNetwork[];
  /** An instant of the API's clock, ms. */
  readonly atMs: number;
}

/**
 * Whether an endpoint is a pod of the Service's own namespace, on this node, on the pod network. Whoever may write
 * EndpointSlices could otherwise send requests of this node to anything that the node can reach, itself included.
 */
export class EndpointPods {
  readonly #objects: ObjectClient;
  readonly #clock: Clock;
  readonly #node: string;
  /** By pod UID and address. */
  readonly #verdicts = new BoundedMap<string, PodVerdict>(REMEMBERED_MAX);
  readonly #asking = new SingleFlight<PodVerdict>();

  constructor(api: KubeApi, node: string) {
    this.#objects = new ObjectClient(api, "add");
    this.#clock = api.clock;
    this.#node = node;
  }

  /** Whether requests may go there. Throws ApiAway. */
  async verdictOf({ address, pod }: LocalEndpoint, namespace: string): Promise<Omit<PodVerdict, "atMs">> {
    if (pod === null) return { problem: `${address} is no pod`, networks: [] };
    if (pod.namespace !== namespace)
      return { problem: `${address} is a pod of namespace ${pod.namespace}`, networks: [] };
    const key = `${pod.uid} ${address}`;
    const known = this.#verdicts.get(key);
    const ageMs = this.#clock.monotonicMs() - (known?.atMs ?? Number.NEGATIVE_INFINITY);
    if (known?.problem === null) {
      // A right pod stays one nearly always: a request does not wait for that to be looked at again.
      if (ageMs > RIGHT_MS) this.#ask(key, address, pod).catch(() => undefined);
      return known;
    }
    return known && ageMs < REFUSED_MS ? known : this.#ask(key, address, pod);
  }

  #ask(key: string, address: string, pod: PodName): Promise<PodVerdict> {
    return this.#asking.run(() => this.#read(key, address, pod), key);
  }

  async #read(key: string, address: string, pod: PodName): Promise<PodVerdict> {
    const path = namespacedPath(PODS_PATH, pod.namespace, pod.name);
    const object = await this.#objects.find(path, this.#clock.monotonicMs() + DEADLINE_MS);
    const problem = this.#judge(object, address, pod);
    const networks = problem === null ? networksOf(object) : [];
    const verdict = { problem, networks, atMs: this.#clock.monotonicMs() };
    this.#verdicts.set(key, verdict);
    return verdict;
  }

  // biome-ignore lint/suspicious/noExplicitAny: a pod as the API server has it
  #judge(object: any, address: string, { namespace, name, uid }: PodName) {
    const said = `pod ${namespace}/${name}`;
    if (object?.metadata?.uid !== uid) return `${said} is not there any more`;
    if (object.spec?.hostNetwork === true) return `${said} is on its node's network (hostNetwork)`;
    if (object.spec?.nodeName !== this.#node) return `${said} is not on node ${this.#node}`;
    const { phase, podIP, podIPs } = object.status ?? {};
    // Its address may be another's already.
    if (phase === "Succeeded" || phase === "Failed") return `${said} has ended`;
    const addresses: unknown[] = [
      podIP,
      ...(Array.isArray(podIPs) ? podIPs : []).map((one) => isObject(one) && one.ip),
    ];
    return addresses.includes(address) ? null : `${said} does not have the address ${address}`;
  }
}

function networksOf(pod: unknown): PodNetwork[] {
  return readPodNetworks(readTexts(pod, "annotations").get(POD_NETWORKS_ANNOTATION));
}
