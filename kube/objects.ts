/** The custom resources of Holdfast, and those of others that it reads, as on the wire. */

import type { OwnerObject } from "../ipam/owner.ts";

const GROUP = "ipam.holdfast.dev";
export const API_VERSION = `${GROUP}/v1alpha1`;
export const ALLOCATIONS_PATH = `/apis/${API_VERSION}/ipallocations`;
export const NETWORKS_PATH = `/apis/${API_VERSION}/ipnetworks`;
export const ADDRESS_POOLS_PATH = `/apis/${API_VERSION}/addresspools`;
export const CLAIMS_PATH = "/apis/k8s.cni.cncf.io/v1alpha1/ipamclaims";
export const NADS_PATH = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";
export const PODS_PATH = "/api/v1/pods";
export const NAMESPACES_PATH = "/api/v1/namespaces";
export const NODES_PATH = "/api/v1/nodes";
/** whereabouts' record of the addresses of a range. */
export const WHEREABOUTS_POOLS_PATH = "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools";

/** `kubectl delete` cannot free an address in use while it has this finalizer. */
export const BOUND_FINALIZER = `${GROUP}/bound`;
/** Of every IPNetwork, from its creation on: nobody but the controller lets it go, however it was deleted. */
export const NETWORK_FINALIZER = `${GROUP}/network`;

export const LABEL_NETWORK = `${GROUP}/network`;
export const LABEL_OWNER = `${GROUP}/owner-uid`;
/** Of a claim's: the claim's `namespace/name`, in the form of a label. */
export const LABEL_CLAIM = `${GROUP}/claim`;
export const LABEL_STATE = `${GROUP}/state`;
/** Keys of labels for the nodes that have an attachment, see nodeLabel: a migration has two of them. */
export const NODE_LABELS = `node.${GROUP}/`;
/** Of an IPAddress: the name of the IPAllocation behind it. */
export const ANNOTATION_ALLOCATION = `${GROUP}/allocation`;
/** For a container that is not attached here: the record that it was imported from, and whose end ends it. */
export const ANNOTATION_IMPORTED_FROM = `${GROUP}/imported-from`;

/** In a write: who writes which field is not recorded. Nobody applies here, and it is half of an IPAllocation. */
export const NO_MANAGED_FIELDS = { managedFields: [{}] } as const;

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
}

/** Identity is (kind, uid, interface); namespace and name are for people. */
export interface AllocationOwner {
  readonly kind: OwnerObject;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** "" for a claim. */
  readonly interface: string;
  /** Cluster API's cluster of a machine, in the same namespace. */
  readonly cluster?: string;
}

export interface AllocationAttachment {
  readonly containerID: string;
  readonly interface: string;
  readonly node: string;
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** The VMI of another namespace that the guest came from: it goes on using the addresses of that one's claims. */
  readonly migratedFrom?: { readonly namespace: string; readonly name: string };
  /** RFC 3339, for people. */
  readonly since: string;
}

/** An attachment as it stands in `status.attachments`: its key has the rest. */
type StoredAttachment = Omit<AllocationAttachment, "containerID" | "interface">;

export interface IPAllocation {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: "IPAllocation";
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly network: string;
    readonly address: string;
    readonly owner: AllocationOwner;
    readonly vm?: { readonly name: string; readonly uid: string };
    readonly mac?: string;
  };
  readonly status?: {
    readonly state?: "Bound" | "Retained" | "Cooling";
    readonly since?: string;
    /** Retained: until when it is reserved for a claim of the owner's name, RFC 3339. */
    readonly retainedUntil?: string;
    /** Cooling: the container that had it certainly runs no more, so a request for this very address need not wait. */
    readonly holderEnded?: boolean;
    readonly attachments?: Readonly<Record<string, StoredAttachment>>;
    /** Of the latest attachment; if there has been none, the node of the pod that the address was recorded from. */
    readonly node?: string;
  };
}

/** A definition of a network and its edition: everything with an address through it was imported. */
export type ImportSource =
  | {
      /** `namespace/name` of a NetworkAttachmentDefinition. */
      readonly definition: string;
      readonly uid: string;
      /** Its `metadata.generation`: later edits may have allowed addresses from elsewhere (DefinitionCatalog knows). */
      readonly generation: number;
    }
  /** The configuration on the nodes, which no NAD holds: the subnets it had, separated by commas. */
  | { readonly subnets: string };

/** As kube/views/published-space.ts reads it. Lists, because a merge patch replaces them as a whole. */
export interface PublishedSpaceFields {
  /** RFC 3339. */
  readonly observed: string;
  readonly version: string;
  /** For each family that there is something of: `ipv4`, a space, and as ipam/space/used-space.ts writes it. */
  readonly used: readonly string[];
  readonly retained: readonly string[];
  readonly cooling: readonly string[];
  /** `<address> <UID of a claim>` */
  readonly unlisted: readonly string[];
}

export interface IPNetwork {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: "IPNetwork";
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly network: string;
    /** The namespace that the network belongs to, see networks/network-owner.ts; absent: not recorded yet. */
    readonly definedIn?: string;
    /** Namespaces that may use it besides, or "*". */
    readonly sharedWith?: readonly string[];
  };
  readonly status?: {
    readonly subnets?: string;
    readonly definedBy?: string;
    readonly size?: string;
    readonly allocated?: string;
    readonly retained?: string;
    readonly cooling?: string;
    readonly free?: string;
    readonly importedFrom?: readonly ImportSource[];
    /** Subnets of configurations on nodes that daemons wait for, as in ImportSource; null: none. */
    readonly importWanted?: readonly { readonly subnets: string }[] | null;
    readonly usedSpace?: PublishedSpaceFields | null;
    /** Of the condition Recovering while it is True, s from when it is first seen; null: removed with it. */
    readonly recovery?: { readonly id: string; readonly seconds: number } | null;
    /** Clusters of Cluster API, `namespace/name`, that were paused when they were last seen, as during a move. */
    readonly pausedClusters?: readonly string[];
    readonly conditions?: readonly import("../ipam/claim-conditions.ts").ClaimCondition[];
  };
}

/** `<containerID>/<interface>`: one writer's place in `status.attachments`. No container ID has a slash. */
export function attachmentKey(containerId: string, interfaceName: string): string {
  return `${containerId}/${interfaceName}`;
}

/** The attachments of an allocation, with what their keys say. */
export function attachmentsIn({ status }: Pick<IPAllocation, "status">): AllocationAttachment[] {
  return Object.entries(status?.attachments ?? {}).map(([key, stored]) => {
    const [containerID = "", ...name] = key.split("/");
    return { containerID, interface: name.join("/"), ...stored };
  });
}

/** Path of a namespaced object under the cluster-wide path of its resource. */
export function namespacedPath(resource: string, namespace: string, name?: string): string {
  const cut = resource.lastIndexOf("/");
  const collection = `${resource.slice(0, cut)}/namespaces/${encodeURIComponent(namespace)}${resource.slice(cut)}`;
  return name === undefined ? collection : `${collection}/${encodeURIComponent(name)}`;
}

export function objectPath(resource: string, name: string): string {
  return `${resource}/${encodeURIComponent(name)}`;
}
