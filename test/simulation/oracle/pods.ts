import type { Interface } from "../world.ts";
import { NODES, type PlainChange, type PlainObject, type PlainStore, PODS, VMIS } from "./view.ts";

/** For so long after a node was seen unreachable its containers may still be judged by that, ms. */
const UNREACHABLE_COUNTS_MS = 120_000;
/** A node without an object for less than this, ms, has only been registered anew: no grace is as short. */
const NODE_GONE_MS_MIN = 4_000;

/**
 * The witness's grace, less what clocks differ, ms: so long a pod is waited for of whose containers nobody sees more.
 */
const UNSEEN_ENDS_MS = 19_000;

/** What is remembered of pods, virtual machines and nodes, also after they are gone. */
export class Pods {
  readonly #store: PlainStore;
  readonly #nowMs: () => number;
  /** Those that have ended once. */
  readonly #ended = new Set<string>();
  /** When that was first seen, ms; of those that have not come back to life with an older etcd. */
  readonly #overSinceMs = new Map<string, number>();
  /** When its object was deleted, ms. */
  readonly #gone = new Map<string, number>();
  /** UID of the instance (VMI) that a pod runs, by the pod's UID. */
  readonly #vmiOfPod = new Map<string, string>();
  /** UIDs of the virtual machines of an instance: one that was left behind may be adopted by the next of its name. */
  readonly #vmsOfVmi = new Map<string, Set<string>>();
  /** When it was unreachable last; Infinity: it is now. */
  readonly #unreachableAtMs = new Map<string, number>();
  /** When its object was deleted; 0: it was gone for long. */
  readonly #goneNodes = new Map<string, number>();

  constructor(store: PlainStore, nowMs: () => number) {
    this.#store = store;
    this.#nowMs = nowMs;
    this.readAgain();
  }

  readAgain(): void {
    for (const { object } of this.#store.range(PODS, "")) {
      // Its kubelet says again that it has ended, or begins with it anew, where it was started meanwhile.
      if (!isOver(object.status)) for (const uid of uidsOf(object)) this.#overSinceMs.delete(uid);
      this.notePod(object);
    }
    for (const { object } of this.#store.range(VMIS, "")) this.noteVmi(object);
    for (const { object } of this.#store.range(NODES, "")) this.#noteNodeObject(object, false);
  }

  notePod(pod: PlainObject): void {
    const { uid } = pod.metadata;
    if (isOver(pod.status)) {
      for (const one of uidsOf(pod)) {
        this.#ended.add(one);
        if (!this.#overSinceMs.has(one)) this.#overSinceMs.set(one, this.#nowMs());
      }
    }
    const owners: PlainObject[] = pod.metadata.ownerReferences ?? [];
    const vmi = owners.find(({ kind }) => kind === "VirtualMachineInstance");
    if (vmi !== undefined) this.#vmiOfPod.set(uid, vmi.uid);
  }

  noteGone(pod: PlainObject): void {
    this.#gone.set(pod.metadata.uid, this.#nowMs());
  }

  noteVmi(vmi: PlainObject): void {
    const owners: PlainObject[] = vmi.metadata.ownerReferences ?? [];
    const vm = owners.find(({ kind }) => kind === "VirtualMachine");
    if (vm === undefined) return;
    const known = this.#vmsOfVmi.get(vmi.metadata.uid) ?? new Set();
    this.#vmsOfVmi.set(vmi.metadata.uid, known.add(vm.uid));
  }

  noteNode({ object, deleted }: PlainChange): void {
    this.#noteNodeObject(object, deleted);
  }

  /** Its phase said so once, and none of its containers ran. */
  hasEnded(podUid: string): boolean {
    return this.#ended.has(podUid);
  }

  /** It has ended, and no restored etcd has brought it back to life: then its kubelet begins with it anew. */
  isOver(podUid: string): boolean {
    return this.#overSinceMs.has(podUid);
  }

  /** Its node has nothing but the end of its pod to go by, and that is longer ago than containers are waited for. */
  isGivenUp({ pod, isUnseen }: Interface): boolean {
    const goneMs = this.#gone.get(pod.uid);
    if (isUnseen !== true || goneMs === undefined || this.find(pod) !== null) return false;
    return this.#nowMs() - goneMs >= UNSEEN_ENDS_MS;
  }

  /** How long ago that was first seen, ms; -Infinity: it has not ended, or lives again since etcd was restored. */
  endedForMs(podUid: string): number {
    const endedMs = this.#overSinceMs.get(podUid);
    return endedMs === undefined ? Number.NEGATIVE_INFINITY : this.#nowMs() - endedMs;
  }

  /** The pod is there; a static pod also under the UID that its node gives it. */
  find({ namespace, name, uid }: { namespace: string; name: string; uid: string }): PlainObject | null {
    const pod = this.#store.get(PODS, `${namespace}/${name}`);
    return pod !== null && (pod.metadata.uid === uid || staticUidOf(pod) === uid) ? pod : null;
  }

  /** UIDs of the instance and the virtual machines that a pod runs or ran; none: it runs none, or nobody saw it. */
  machineUidsOf(podUid: string): readonly string[] {
    const vmi = this.#vmiOfPod.get(podUid);
    if (vmi === undefined) return [];
    return [vmi, ...(this.#vmsOfVmi.get(vmi) ?? [])];
  }

  isNodeThere(node: string): boolean {
    return this.#store.get(NODES, node) !== null;
  }

  /** Its object has been gone for a while, now or earlier. */
  wasNodeGone(node: string): boolean {
    const goneMs = this.#goneNodes.get(node);
    if (goneMs === undefined) return !this.isNodeThere(node);
    return goneMs === 0 || this.#nowMs() - goneMs >= NODE_GONE_MS_MIN;
  }

  /** Its kubelet does not report, or did not a short time ago. */
  isUnreachable(node: string): boolean {
    const atMs = this.#unreachableAtMs.get(node);
    return atMs !== undefined && this.#nowMs() - atMs < UNREACHABLE_COUNTS_MS;
  }

  /** What was remembered of nodes is over: the world was healed. */
  forgetNodes(): void {
    this.#goneNodes.clear();
    this.#gone.clear();
    this.#unreachableAtMs.clear();
    for (const { object } of this.#store.range(NODES, "")) this.#noteNodeObject(object, false);
  }

  #noteNodeObject(node: PlainObject, deleted: boolean): void {
    const { name } = node.metadata;
    const goneMs = this.#goneNodes.get(name);
    if (deleted) this.#goneNodes.set(name, goneMs === 0 ? 0 : this.#nowMs());
    else if (goneMs !== undefined && goneMs > 0) {
      if (this.#nowMs() - goneMs >= NODE_GONE_MS_MIN) this.#goneNodes.set(name, 0);
      else this.#goneNodes.delete(name);
    }
    const conditions: PlainObject[] = node.status?.conditions ?? [];
    const ready = conditions.find(({ type }) => type === "Ready");
    if (ready?.status === "Unknown") this.#unreachableAtMs.set(name, Number.POSITIVE_INFINITY);
    else if (this.#unreachableAtMs.get(name) === Number.POSITIVE_INFINITY)
      this.#unreachableAtMs.set(name, this.#nowMs());
  }
}

/**
 * UID that the kubelet gave a static pod, a hash; its object in the API has another. Anybody may write a UID of the API
 * there.
 */
export function staticUidOf(pod: PlainObject): string | null {
  const owners: PlainObject[] = pod.metadata.ownerReferences ?? [];
  // Anybody can write the annotations.
  if (!owners.some(({ kind, name }) => kind === "Node" && name === pod.spec?.nodeName)) return null;
  const annotations = pod.metadata.annotations ?? {};
  const uid = annotations["kubernetes.io/config.mirror"] ?? annotations["kubernetes.io/config.hash"] ?? "-";
  return uid.includes("-") ? null : uid;
}

function uidsOf(pod: PlainObject): string[] {
  const staticUid = staticUidOf(pod);
  return staticUid === null ? [pod.metadata.uid] : [pod.metadata.uid, staticUid];
}

/** The phase says so, and no container of it runs. */
function isOver(status: PlainObject): boolean {
  if (status?.phase !== "Succeeded" && status?.phase !== "Failed") return false;
  const lists = [status.containerStatuses, status.initContainerStatuses, status.ephemeralContainerStatuses];
  return lists.every((list: PlainObject[] = []) => list.every(({ state }) => state?.running === undefined));
}

/** Names of the claims that a pod's annotations name, for whatever interface. */
export function claimsNamedBy(pod: PlainObject): string[] {
  const annotations = pod.metadata.annotations ?? {};
  const texts = [annotations["k8s.v1.cni.cncf.io/networks"], annotations["v1.multus-cni.io/default-network"]];
  return texts.flatMap((text) =>
    elementsOf(text).flatMap((element) => {
      const name = element?.["ipam-claim-reference"];
      return typeof name === "string" && name !== "" ? [name] : [];
    }),
  );
}

function elementsOf(text: unknown): PlainObject[] {
  if (typeof text !== "string") return [];
  try {
    const read = JSON.parse(text);
    return Array.isArray(read) ? read : [read];
  } catch {
    return [];
  }
}
