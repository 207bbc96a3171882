import type { Owner } from "../ipam/owner.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { NamespaceIdentity } from "../platform/namespaces.ts";

/** A pod as the runtime named it in CNI_ARGS. */
export interface PodIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Of an attachment whose ADD this journal has not recorded. It can never be known to be gone. */
export const UNSEEN_NAMESPACE: NamespaceIdentity = { path: "", id: "unseen", witnessed: false };

/** One element of `ips` in a CNI result, without the fields that depend on the version. */
export interface AnsweredAddress {
  /** CIDR with the subnet's mask, RFC 5952. */
  readonly address: string;
  readonly gateway?: string;
}

/** (container ID, interface name) on a node that uses addresses of one network now. */
export interface Attachment {
  readonly id: number;
  readonly network: string;
  readonly containerId: string;
  readonly interface: string;
  readonly owner: Owner;
  /** The claim that it named, `namespace/name`; "" for none. */
  readonly claimRef: string;
  readonly ips: readonly AnsweredAddress[];
  readonly stamp: Stamp;
  readonly netns: NamespaceIdentity;
  readonly pod: PodIdentity | null;
  readonly node: string;
  /** Wall clock, for people. */
  readonly sinceMs: number;
  /** The MAC that was requested with the ADD, as written; null: none was. */
  readonly mac: string | null;
}

/** Whether a lost journal learnt it from the API, without netns and time of its ADD: of any boot (own-objects.ts). */
export function isLearnt({ netns, stamp }: Pick<Attachment, "netns" | "stamp">): boolean {
  return netns.path === "" && stamp.us === 0;
}

export type AddressUser = Pick<Attachment, "network" | "containerId" | "owner" | "pod">;

/**
 * Bound: somebody holds the address. Retained: its claim has ended, and it is reserved for a claim of that name until
 * `retainedUntil`. Cooling: released, and not given to others yet.
 */
export const ALLOCATION_STATES = ["Bound", "Retained", "Cooling"] as const;
export type AllocationState = (typeof ALLOCATION_STATES)[number];

/** One address in `GET /v1/allocations`. */
export interface AllocationView {
  readonly network: string;
  /** CIDR with the subnet's mask. */
  readonly address: string;
  readonly state: AllocationState;
  readonly owner: Owner;
  readonly vm: { readonly name: string; readonly uid: string } | null;
  readonly since: string;
  /** Of a Retained address: until when it is reserved for a claim of its owner's name, RFC 3339. */
  readonly retainedUntil?: string;
  /** What the VM of its claim, which runs, asks for in its place; absent: nothing, or it is not known. */
  readonly asked?: readonly string[];
  readonly attachments: readonly AttachmentView[];
}

export interface AttachmentView {
  readonly containerID: string;
  readonly interface: string;
  readonly netns: string;
  readonly node: string;
  readonly pod: PodIdentity | null;
  readonly since: string;
  /** The MAC that was requested with the ADD, as written; absent: none was, or it is not recorded here. */
  readonly mac?: string;
}

/** One period of an address's past: held by a claim, or used by an attachment. */
export interface HistoryView {
  readonly network: string;
  readonly address: string;
  readonly owner: Owner;
  /** null: the address was held by a claim, not in use by a container. */
  readonly containerID: string | null;
  readonly interface: string | null;
  readonly pod: PodIdentity | null;
  readonly node: string;
  readonly from: string;
  /** null: the period has not ended. */
  readonly until: string | null;
  readonly endedBy: string | null;
}

export interface NetworkView {
  readonly name: string;
  /** Source of the definition: an applied manifest (`namespace/name`), or the runtime's configuration. */
  readonly source: string;
  readonly allowPersistentIPs: boolean;
  readonly cooldownSeconds: number;
  readonly retainSeconds: number;
  readonly attachments: number;
  /** In Kubernetes: the namespace it belongs to, "" for the nodes' administrators; absent: it has no owner yet. */
  readonly definedIn?: string;
  /** In Kubernetes: other namespaces that may use it, or "*". */
  readonly sharedWith?: readonly string[];
  /** In Kubernetes: when its counts were true, as the controller published them last, RFC 3339; null: not published. */
  readonly observed?: string | null;
  /** Absent: the network has none. */
  readonly metadata?: { readonly tokens: string };
  /** That its interfaces get; `gw` is "" for the subnet's gateway. Absent: none. */
  readonly routes?: readonly { readonly dst: string; readonly gw: string }[];
  /** Allocations outside every present subnet (the range was edited): kept, and not part of the counts below. */
  readonly outside: string;
  /** Holders whose addresses are as a former definition gave them; only where it is asked for (`?former=true`). */
  readonly former?: number;
  readonly ranges: readonly RangeView[];
}

/** Decimal, as IPv6 does not fit a JSON number. free + allocated + retained + cooling + excluded = size. */
export interface RangeView {
  readonly subnets: readonly string[];
  readonly gateways: readonly string[];
  readonly size: string;
  readonly allocated: string;
  readonly retained: string;
  readonly cooling: string;
  readonly free: string;
  readonly excluded: string;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** To be passed as `continue` to get the next page; absent on the last. */
  readonly continue?: string;
}
