import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { SELECTION_ANNOTATIONS } from "./network-selection.ts";
import { objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";
import { ADDRESSES_ANNOTATION } from "./requested-addresses.ts";

/** Interfaces as reported by Multus: a list of `{name, interface, ips, mac}`, addresses without mask. */
export const NETWORK_STATUS_ANNOTATION = "k8s.v1.cni.cncf.io/network-status";
/** Networks as assigned by OVN-Kubernetes: a map of `{ip_addresses, mac_address}` by NAD, addresses with mask. */
export const POD_NETWORKS_ANNOTATION = "k8s.ovn.org/pod-networks";

/** The few fields kept of a pod: ten thousand pods are held in memory. */
export type PodView = Readonly<ReturnType<typeof projectPod>>;

/**
 * Whether a UID is the kubelet's own of a static pod: a hash of its manifest, while those of the API server are UUIDs.
 * Such a pod runs whether or not there is an object of it in the API: that there is none says nothing of its
 * containers.
 */
export function isStaticUid(uid: string): boolean {
  return /^[0-9a-f]{16,64}$/.test(uid);
}

const MIGRATION_LABEL = "kubevirt.io/migrationJobUID";
const STATIC_UID_ANNOTATION = "kubernetes.io/config.mirror";
const TERMINAL_PHASES = ["Succeeded", "Failed"];
const CONTAINER_STATUSES = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] as const;
/** The reason of a waiting container whose pod has not finished its init containers. */
const NEVER_STARTED = "PodInitializing";

/** `addresses`: also `podIPs` and the annotations that tell addresses, which are big. Throws MalformedObjectError. */
export function projectPod(object: unknown, options: { readonly addresses?: boolean } = {}) {
  const metadata = readMetadata(object, "Pod");
  const spec = objectAt(object, "spec", "Pod");
  const status = objectAt(object, "status", "Pod");
  const { phase } = status;
  const annotations = readTexts(object, "annotations");
  const kept = [
    ...SELECTION_ANNOTATIONS,
    ADDRESSES_ANNOTATION,
    ...(options.addresses ? [NETWORK_STATUS_ANNOTATION, POD_NETWORKS_ANNOTATION] : []),
  ];
  const owners = readOwners(object, "Pod");
  const vmis = owners.filter(({ kind }) => kind === "VirtualMachineInstance");
  const vmi = vmis.find(({ controller }) => controller) ?? vmis[0];
  const node = typeof spec.nodeName === "string" && spec.nodeName !== "" ? spec.nodeName : null;
  const ofNode = owners.some(({ kind, name }) => kind === "Node" && name === node);
  return {
    ...metadata,
    /** null: not scheduled yet. */
    node,
    /** "" while it is missing. */
    phase: typeof phase === "string" ? phase : "",
    taken: node !== null && isTaken(status),
    terminal: hasEnded(status),
    stopped: hasStopped(status, metadata.deletionTimestamp !== null),
    hostNetwork: spec.hostNetwork === true,
    lacksSandbox: lacksSandbox(status),
    /** The addresses of its primary interface as the kubelet reports them; none for a pod on its node's own network. */
    podIPs: options.addresses && spec.hostNetwork !== true ? readPodIPs(status) : [],
    /** The kubelet's own UID of a static pod, which CNI_ARGS have instead of the object's. Only if its node owns it. */
    staticUid: ofNode ? readStaticUid(annotations.get(STATIC_UID_ANNOTATION)) : null,
    vmi: vmi ? { name: vmi.name, uid: vmi.uid } : null,
    /** A launcher pod that KubeVirt has created for a migration. */
    isMigrationTarget: vmi !== undefined && readTexts(object, "labels").has(MIGRATION_LABEL),
    annotations: Object.fromEntries(
      kept.flatMap((key) => {
        const text = annotations.get(key);
        return text === undefined ? [] : [[key, text]];
      }),
    ),
  };
}

/** A kubelet's hash, or the manifest's own; every record of the pod's addresses has it. */
function readStaticUid(text: string | undefined): string | null {
  return text !== undefined && /^[\w.-]{1,128}$/.test(text) ? text : null;
}

/**
 * Whether a kubelet has begun with the pod: it has left Pending, or the status lists its containers, which the kubelet
 * writes before it asks for a network. The API server alone writes neither, also where the creator of the pod has named
 * a node.
 */
function isTaken(status: JsonObject): boolean {
  const { phase } = status;
  if (typeof phase === "string" && phase !== "" && phase !== "Pending") return true;
  return CONTAINER_STATUSES.some((key) => Array.isArray(status[key]) && status[key].length > 0);
}

/** At most one of each family, as the API server enforces. */
function readPodIPs({ podIP, podIPs }: JsonObject): string[] {
  const list = Array.isArray(podIPs) ? podIPs : [];
  const texts = list.flatMap((one) => (isObject(one) && typeof one.ip === "string" ? [one.ip] : []));
  return texts.length === 0 && typeof podIP === "string" && podIP !== "" ? [podIP] : texts;
}

/**
 * Whether all containers of a pod have ended and none of them runs again: its phase says so, and so does the status of
 * each container. The phase alone does not: kubelets before 1.24 write Failed when they begin to stop an evicted pod,
 * and a VM may take an hour to shut down. Whatever cannot be read counts as running.
 */
function hasEnded(status: JsonObject): boolean {
  return TERMINAL_PHASES.includes(String(status.phase)) && everyContainer(status, containerHasEnded);
}

/**
 * Whether a pod has ended, or is being deleted and all its containers are terminated. That is how a kubelet leaves a
 * pod which it was told to delete, before its object goes: it starts nothing of such a pod again. Kubelets before 1.27
 * leave the phase of it Running.
 */
function hasStopped(status: JsonObject, beingDeleted: boolean): boolean {
  if (hasEnded(status)) return true;
  const { containerStatuses } = status;
  const isReported = Array.isArray(containerStatuses) && containerStatuses.length > 0;
  // Waiting for an init container: a kubelet that has not seen the deletion would start it.
  return beingDeleted && isReported && everyContainer(status, isTerminated);
}

/**
 * Whether the kubelet says that the pod has no sandbox with a network now, as after the old one died: what its
 * annotations tell is of that one. Kubelets before 1.29 do not say it. The annotations of the next sandbox may come
 * before this is over.
 */
function lacksSandbox({ conditions }: JsonObject): boolean {
  const isFalse = (one: unknown) => isObject(one) && one.type === "PodReadyToStartContainers" && one.status === "False";
  return Array.isArray(conditions) && conditions.some(isFalse);
}

function everyContainer(status: JsonObject, holds: (container: unknown) => boolean): boolean {
  return CONTAINER_STATUSES.every((key) => {
    const list = status[key] ?? [];
    return Array.isArray(list) && list.every(holds);
  });
}

function containerHasEnded(container: unknown): boolean {
  const { running, waiting } = stateOf(container);
  // If an init container of the pod failed, the others wait for ever.
  const neverStarted = !isObject(running) && isObject(waiting) && waiting.reason === NEVER_STARTED;
  return neverStarted || isTerminated(container);
}

function isTerminated(container: unknown): boolean {
  const { running, terminated } = stateOf(container);
  return !isObject(running) && isObject(terminated);
}

function stateOf(container: unknown): JsonObject {
  return isObject(container) && isObject(container.state) ? container.state : {};
}
