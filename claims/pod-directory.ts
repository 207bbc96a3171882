import { RefusalError, refuse } from "../ipam/refusals.ts";
import { refusedBy } from "../store/kubernetes/allocation-client.ts";
import type { KubeApi } from "../store/kubernetes/kube-api.ts";
import { namespacedPath, PODS_PATH } from "../store/kubernetes/objects.ts";
import { readOwners } from "./object-metadata.ts";
import { type PodView, projectPod } from "./pod-view.ts";

/** VMs remembered by the UID of their VMI, which never gets another owner. */
const VMS_REMEMBERED_MAX = 10_000;
const VMIS_PATH = "/apis/kubevirt.io/v1/virtualmachineinstances";

/** A pod as CNI_ARGS name it. `uid` "": the runtime did not say. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** What a VMI tells of the VM that owns it. */
export interface VmLookup {
  /** Whether the cluster has KubeVirt's API at all. */
  readonly kubevirt: boolean;
  readonly vmUid: string | null;
}

/** The pods of this node from memory, any pod from the API. Methods throw ApiAway, and RefusalError API_REFUSED. */
export class PodDirectory {
  readonly #api: KubeApi;
  readonly #cached: (key: string) => PodView | undefined;
  readonly #vms = new Map<string, string | null>();

  constructor(api: KubeApi, cached: (key: string) => PodView | undefined) {
    this.#api = api;
    this.#cached = cached;
  }

  /** From memory where it is there. `fresh` tells whether the API was asked just now. Throws RefusalError POD_ABSENT. */
  async find(pod: PodName, deadlineMs: number): Promise<{ view: PodView; fresh: boolean }> {
    const cached = this.#cached(`${pod.namespace}/${pod.name}`);
    // Without a UID a cached pod may be the predecessor of the one that asks.
    if (cached && pod.uid !== "" && isPod(cached, pod.uid)) return { view: cached, fresh: false };
    return { view: await this.read(pod, deadlineMs), fresh: true };
  }

  /** A quorum read. Throws RefusalError POD_ABSENT, also when the name is another pod's by now. */
  async read(pod: PodName, deadlineMs: number): Promise<PodView> {
    const view = await this.look(pod.namespace, pod.name, deadlineMs);
    if (view && isPod(view, pod.uid)) return view;
    throw new RefusalError(refuse("POD_ABSENT", { pod: `${pod.namespace}/${pod.name} with UID ${pod.uid}` }));
  }

  /** A quorum read; null: there is no pod of that name. */
  async look(namespace: string, name: string, deadlineMs: number): Promise<PodView | null> {
    const path = namespacedPath(PODS_PATH, namespace, name);
    const answer = await this.#api.send({ method: "GET", path, priority: "add", deadlineMs });
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw refusedBy(answer, `read pod ${namespace}/${name}`);
    return projectPod(answer.body);
  }

  /** Whether a pod has certainly ended: gone, another one by its name, or terminal. */
  async hasEnded(pod: PodName, deadlineMs: number): Promise<boolean> {
    const view = await this.look(pod.namespace, pod.name, deadlineMs);
    return view === null || !isPod(view, pod.uid) || view.terminal;
  }

  /** Whether the cluster has KubeVirt's API. */
  async hasKubeVirt(namespace: string, deadlineMs: number): Promise<boolean> {
    const path = namespacedPath(VMIS_PATH, namespace, "holdfast-asks-whether-there-is-such-an-api");
    const answer = await this.#api.send({ method: "GET", path, priority: "add", deadlineMs });
    return answer.body?.details?.name !== undefined;
  }

  /** The VM behind a launcher pod. */
  async vmOf(pod: PodView, deadlineMs: number): Promise<VmLookup> {
    if (pod.vmi === null) return { kubevirt: true, vmUid: null };
    const known = this.#vms.get(pod.vmi.uid);
    if (known !== undefined) return { kubevirt: true, vmUid: known };
    const path = namespacedPath(VMIS_PATH, pod.namespace, pod.vmi.name);
    const answer = await this.#api.send({ method: "GET", path, priority: "add", deadlineMs });
    // Of an unknown object the answer names it; of an unknown resource it does not.
    if (answer.status === 404) return { kubevirt: answer.body?.details?.name !== undefined, vmUid: null };
    if (answer.status !== 200) throw refusedBy(answer, `read VirtualMachineInstance ${pod.vmi.name}`);
    if (answer.body?.metadata?.uid !== pod.vmi.uid) return { kubevirt: true, vmUid: null };
    const owner = readOwners(answer.body, "VirtualMachineInstance").find(
      ({ kind }) => kind === "VirtualMachine",
    );
    if (this.#vms.size >= VMS_REMEMBERED_MAX) this.#vms.clear();
    this.#vms.set(pod.vmi.uid, owner?.uid ?? null);
    return { kubevirt: true, vmUid: owner?.uid ?? null };
  }
}

function isPod(view: PodView, uid: string): boolean {
  return uid === "" || view.uid === uid || view.staticUid === uid;
}
