import { createHash } from "node:crypto";
import type { KubeObject } from "../kube-fake/objects.ts";

/**
 * Pods, claims and launcher pods as their creators write them: for a real API server, one in memory, and simulated
 * ones.
 */

export const KUBEVIRT = "kubevirt.io/v1";
export const CLAIMS = "k8s.cni.cncf.io/v1alpha1";
export const CLAIM_FINALIZER = "kubevirt.io/persistent-ipam";
/** The VM of a claim, by name. */
export const VM_LABEL = "kubevirt.io/vm";
/** The VMI of a launcher pod, by name. */
export const LAUNCHER_LABEL = "vm.kubevirt.io/name";
/** The same by UID. */
export const CREATED_BY_LABEL = "kubevirt.io/created-by";
const ROLE_LABEL = "kubevirt.io";
const LAUNCHER_ROLE = "virt-launcher";
/** The node of a VMI that has a launcher which is ready. */
export const NODE_LABEL = "kubevirt.io/nodeName";
/** On the launcher pod of a migration's target. */
export const MIGRATION_LABEL = "kubevirt.io/migrationJobUID";
/** Both keep a VMI until its launcher pods have ended. */
export const VMI_FINALIZERS: readonly string[] = [
  "kubevirt.io/virtualMachineControllerFinalize",
  "kubevirt.io/foregroundDeleteVirtualMachine",
];
export const NETWORKS = "k8s.v1.cni.cncf.io/networks";
/** Hex digits of the hash in an interface's name; with `pod` before them they fill what Linux allows. */
const INTERFACE_DIGITS = 11;

/** An element of the annotation that tells Multus which networks a pod has. */
export interface NetworkSelection {
  /** The NetworkAttachmentDefinition's name. */
  readonly name: string;
  readonly namespace?: string;
  readonly interface?: string;
  readonly mac?: string;
  readonly ips?: readonly string[];
  readonly "ipam-claim-reference"?: string;
}

/** What a pod has beside its name. Without `node` it waits for its scheduler. */
export interface PodParts {
  readonly node?: string;
  readonly networks?: readonly NetworkSelection[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
  readonly finalizers?: readonly string[];
}

/** `name` or `generateName`. */
type Named = { readonly name: string } | { readonly generateName: string };

/** A pod as its creator writes it. */
export function podObject(namespace: string, named: Named, parts: PodParts): KubeObject {
  const networks = parts.networks === undefined ? {} : { [NETWORKS]: JSON.stringify(parts.networks) };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...named,
      namespace,
      labels: parts.labels ?? {},
      annotations: { ...networks, ...parts.annotations },
      ownerReferences: parts.ownerReferences ?? [],
      finalizers: parts.finalizers ?? [],
    },
    spec: {
      ...(parts.node === undefined ? {} : { nodeName: parts.node }),
      terminationGracePeriodSeconds: 30,
      containers: [{ name: "main", image: "none" }],
    },
  };
}

/** The interface in the launcher pod that KubeVirt gives to a logical network. */
export function interfaceOf(logical: string): string {
  return `pod${createHash("sha256").update(logical).digest("hex").slice(0, INTERFACE_DIGITS)}`;
}

/** What makes a pod the launcher of a VMI: no node yet, whoever creates it. */
export function launcherParts(vmi: KubeObject, parts: Pick<PodParts, "networks" | "labels">): PodParts {
  const { name, uid, annotations } = vmi.metadata;
  return {
    ...parts,
    labels: { [ROLE_LABEL]: LAUNCHER_ROLE, [CREATED_BY_LABEL]: uid, [LAUNCHER_LABEL]: name, ...parts.labels },
    annotations: { ...annotations, "kubevirt.io/domain": name },
    ownerReferences: [ownerOf(KUBEVIRT, "VirtualMachineInstance", vmi.metadata)],
  };
}

/** Whether a pod is the launcher of a VMI. */
export function isLauncher({ metadata }: KubeObject): boolean {
  return metadata.labels?.[ROLE_LABEL] === LAUNCHER_ROLE;
}

/** What a kubelet says of a pod's containers. */
export function containerStatuses(state: object): object[] {
  const ready = "running" in state;
  return [{ name: "main", ready, restartCount: 0, image: "none", imageID: "", state }];
}

/** What a kubelet reports of a launcher pod. */
export function launcherStatus(phase: string): object {
  const ended = { terminated: { exitCode: phase === "Failed" ? 1 : 0 } };
  const state = { Pending: { waiting: { reason: "ContainerCreating" } }, Running: { running: {} } }[phase] ?? ended;
  const conditions = [
    { type: "PodScheduled", status: "True" },
    { type: "Ready", status: phase === "Running" ? "True" : "False" },
  ];
  return { phase, conditions, containerStatuses: containerStatuses(state) };
}

/** What a scheduler posts to a pod's `/binding`. */
export function bindingObject({ metadata }: KubeObject, node: string): KubeObject {
  const { namespace, name } = metadata;
  return { apiVersion: "v1", kind: "Binding", metadata: { namespace, name }, target: { kind: "Node", name: node } };
}

/** `status.activePods` of a VMI: the node of each of its launcher pods that exist, of whatever phase, by UID. */
export function activePodsOf(pods: readonly KubeObject[]): Record<string, string> {
  return Object.fromEntries(pods.map(({ metadata, spec }) => [metadata.uid, spec.nodeName ?? ""]));
}

/** A claim with the label, finalizer and owner that KubeVirt's IPAM controller gives it. */
export function claimObject(
  vm: { readonly namespace: string; readonly name: string },
  claim: { readonly name: string; readonly network: string; readonly owner: object },
): KubeObject {
  return {
    apiVersion: CLAIMS,
    kind: "IPAMClaim",
    metadata: {
      name: claim.name,
      namespace: vm.namespace,
      labels: { [VM_LABEL]: vm.name },
      finalizers: [CLAIM_FINALIZER],
      ownerReferences: [claim.owner],
    },
    spec: { network: claim.network, interface: "" },
  };
}

/** A reference to the controller that owns an object. */
export function ownerOf(
  apiVersion: string,
  kind: string,
  { name, uid }: { readonly name: string; readonly uid: string },
): object {
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}
