import type { Owner } from "../ipam/owner.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { NamespaceIdentity } from "../platform/namespaces.ts";

/** A pod as the runtime named it in CNI_ARGS. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Of an attachment whose ADD this journal has no record of. Nobody can say that it is gone. */
export const UNSEEN_NAMESPACE: NamespaceIdentity = { path: "", id: "unseen", witnessed: false };

/** One element of `ips` in a CNI result, without what depends on the version asked for. */
export interface AnsweredAddress {
  /** CIDR with the subnet's mask, RFC 5952. */
  readonly address: string;
  readonly gateway?: string;
}

/** (container ID, interface name) on a node that uses addresses of one network right now. */
export interface Attachment {
  readonly id: number;
  readonly network: string;
  readonly containerId: string;
  readonly interface: string;
  readonly owner: Owner;
  /** The claim this attachment named, `namespace/name`; "" for none. */
  readonly claimRef: string;
  readonly ips: readonly AnsweredAddress[];
  readonly stamp: Stamp;
  readonly netns: NamespaceIdentity;
  readonly pod: PodIdentity | null;
  readonly node: string;
  /** Wall clock, for people. */
  readonly sinceMs: number;
  /** MAC that somebody asked for with the ADD, as they wrote it; null: nobody did. */
  readonly mac: string | null;
}

/** As much of an attachment as tells who uses an address. */
export type AddressUser = Pick<Attachment, "network" | "containerId" | "owner">;

/** What `GET /v1/allocations` shows of one address. */
export interface AllocationView {
  readonly network: string;
  /** CIDR with the subnet's mask. */
  readonly address: string;
  readonly state: "Bound" | "Cooling";
  readonly owner: Owner;
  readonly vm: { readonly name: string; readonly uid: string } | null;
  readonly since: string;
  readonly attachments: readonly AttachmentView[];
}

export interface AttachmentView {
  readonly containerID: string;
  readonly interface: string;
  readonly netns: string;
  readonly node: string;
  readonly pod: PodIdentity | null;
  readonly since: string;
}

/** One period of an address's past: held by a claim, or used by an attachment. */
export interface HistoryView {
  readonly network: string;
  readonly address: string;
  readonly owner: Owner;
  /** null: the address was held (by a claim), not in use by a container. */
  readonly containerID: string | null;
  readonly interface: string | null;
  readonly pod: PodIdentity | null;
  readonly node: string;
  readonly from: string;
  /** null: still so. */
  readonly until: string | null;
  readonly endedBy: string | null;
}

export interface NetworkView {
  readonly name: string;
  /** Where the definition comes from: an applied manifest (`namespace/name`), or the runtime's configuration. */
  readonly source: string;
  readonly allowPersistentIPs: boolean;
  readonly cooldownSeconds: number;
  readonly attachments: number;
  /** In Kubernetes: the namespace that the network belongs to, "" the nodes' administrators; absent: nobody's yet. */
  readonly definedIn?: string;
  /** In Kubernetes: namespaces that may use it besides, or "*". */
  readonly sharedWith?: readonly string[];
  /** Absent: the network has none. */
  readonly metadata?: MetadataView;
  /** Allocations outside every present subnet (the range was edited): kept, not counted below. */
  readonly outside: string;
  readonly ranges: readonly RangeView[];
}

/** Metadata of a network: the reserved address with its mask, or why there is none although it was asked for. */
export type MetadataView =
  | { readonly address: string; readonly tokens: string }
  | { readonly refused: string };

/** Counts of one range set, as decimal strings: an IPv6 subnet does not fit a JSON number. free + allocated + cooling + excluded = size. */
export interface RangeView {
  readonly subnets: readonly string[];
  readonly gateways: readonly string[];
  readonly size: string;
  readonly allocated: string;
  readonly cooling: string;
  readonly free: string;
  readonly excluded: string;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Give it back as `continue` to get the next page; absent on the last. */
  readonly continue?: string;
}
