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

/** What a pod has beside its name. */
export interface PodParts {
  readonly node: string;
  readonly networks?: readonly NetworkSelection[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
  readonly finalizers?: readonly string[];
}

/** `name` or `generateName`. */
type Named = { readonly name: string } | { readonly generateName: string };

/** A pod that its scheduler has bound to a node. */
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
      nodeName: parts.node,
      terminationGracePeriodSeconds: 30,
      containers: [{ name: "main", image: "none" }],
    },
  };
}

/** The interface in the launcher pod that KubeVirt gives to a logical network. */
export function interfaceOf(logical: string): string {
  return `pod${createHash("sha256").update(logical).digest("hex").slice(0, INTERFACE_DIGITS)}`;
}

/** What makes a pod the launcher of a VMI. */
export function launcherParts(vmi: KubeObject, parts: Pick<PodParts, "node" | "networks" | "labels">): PodParts {
  const { name, annotations } = vmi.metadata;
  return {
    ...parts,
    labels: { "kubevirt.io": "virt-launcher", [LAUNCHER_LABEL]: name, ...parts.labels },
    annotations: { ...annotations, "kubevirt.io/domain": name },
    ownerReferences: [ownerOf(KUBEVIRT, "VirtualMachineInstance", vmi.metadata)],
  };
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
