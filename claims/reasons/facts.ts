import type { PoolReference } from "../../kube/views/machine-claim-view.ts";
import type { JudgedAllocation } from "./verdict.ts";

/** What is known about an object. `unknown` must be treated as "in use". */
export type Found<T> =
  | { readonly kind: "present"; readonly it: T }
  | { readonly kind: "absent" }
  | { readonly kind: "unknown" };

export const ABSENT = { kind: "absent" } as const;
export const UNKNOWN = { kind: "unknown" } as const;

export function present<T>(it: T): Found<T> {
  return { kind: "present", it };
}

/** A followed copy of a resource's objects. `known` is false until it is complete, and while it cannot be trusted. */
export interface Cache<T> {
  readonly items: ReadonlyMap<string, T>;
  readonly known: boolean;
}

/** Called for every change of a copy: `now` is null when the object is gone, `before` when it is new. */
export type ChangeListener<T> = (now: T | null, before: T | null) => void;

export interface ChangingCache<T> extends Cache<T> {
  onChange(listener: ChangeListener<T>): void;
}

/** An address that a pod reports, and its origin. */
export interface ReportedAddress {
  /** Canonical, without mask. */
  readonly address: string;
  /** The NAD of its interface, `namespace/name`; null: none. */
  readonly nad: string | null;
  /** The name of a network that no NAD defines; null: it came through a NAD, or is not reported. */
  readonly network: string | null;
}

export interface ClaimFact {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly isDeleting: boolean;
  /** `spec.network` */
  readonly network: string;
  /** RFC 3339, in whole seconds of the API server's clock; compared with those of other objects only. */
  readonly creationTimestamp: string;
  /** `status.ips` as written. */
  readonly ips: readonly string[];
  /** The VM or VMI that owns it; null: none. */
  readonly vm: { readonly name: string; readonly uid: string } | null;
}

export interface NodeFact {
  /** Its kubelet has not reported for a while: the node's condition Ready is Unknown. */
  readonly unreachable: boolean;
}

export interface PodFact {
  readonly uid: string;
  /** null: not scheduled yet. */
  readonly node: string | null;
  /** UID that the runtime uses for a static pod, whose object in the API has another; null for others. */
  readonly staticUid: string | null;
  /** Succeeded or Failed, and none of its containers runs or will run again. */
  readonly terminal: boolean;
  readonly creationTimestamp: string;
  /** Addresses that its network status and the kubelet report. */
  readonly addresses: readonly ReportedAddress[];
  /** It reports more addresses than were read: it may have any other one too. */
  readonly addressesCut: boolean;
}

/** A living pod whose network selection names a claim. */
export interface NamingPod extends PodFact {
  /** It is attached to an address of the claim with this UID, and not to one of a predecessor with the same name. */
  attachedToClaim(claimUid: string): boolean;
}

export interface AddressClaimFact {
  readonly uid: string;
  readonly pool: PoolReference;
  /** By its own annotation. */
  readonly paused: boolean;
}

export interface MachineAddressFact {
  readonly claim: string;
  readonly pool: PoolReference;
  /** Canonical, without mask; null: it cannot be read. */
  readonly address: string | null;
  /** The name of its allocation, as it was noted on it; null: it was not. */
  readonly allocation: string | null;
}

export interface AddressPoolFact {
  readonly network: string;
  /** The address that it keeps for the claim of a name, canonical; null: none. */
  preallocated(claim: string): string | null;
}

export interface NamespaceFact {
  readonly isEnding: boolean;
  /** RFC 3339, in whole seconds of the API server's clock. */
  readonly creationTimestamp: string;
}

/** The facts that decide about machines. Without the definition of its kind, nothing is known of an object. */
export interface MachineFacts {
  addressClaim(namespace: string, name: string): Found<AddressClaimFact>;
  machineData(namespace: string, name: string): Found<{ readonly uid: string }>;
  /** The IPAddress of the name, whoever made it. */
  machineAddress(namespace: string, name: string): Found<MachineAddressFact>;
  /** The UID of the owner of the allocation of a name; absent: none is Bound. */
  boundTo(allocation: string): Found<string>;
  cluster(namespace: string, name: string): Found<{ readonly paused: boolean }>;
  addressPools(namespace: string): Found<readonly AddressPoolFact[]>;
  namespace(name: string): Found<NamespaceFact>;
  /** Whether a Cluster (`namespace/name`) that is gone was paused when it was last seen. */
  wasPaused(network: string, cluster: string): Found<boolean>;
}

/** Where a claim is to be. */
export interface Wants {
  /** null: where no claim can follow its VM, another plugin's network or one without persistent addresses. */
  readonly network: string | null;
  /** What its VM asks for there, canonical. */
  readonly asks: readonly string[];
  /** UID of the VMI that wants it; null: nothing of the VM runs, or there is none. */
  readonly vmi: string | null;
  /** The NetworkAttachmentDefinition, `namespace/name`; "": there is no VM. */
  readonly nad: string;
}

export interface Facts extends MachineFacts {
  claim(namespace: string, name: string): Found<ClaimFact>;
  /** What a claim of a VM is to be on; that of others is `spec.network`. */
  wants(claim: ClaimFact): Found<Wants>;
  /** Bound allocations of the claim, by its UID, besides those named: what it has on any network. */
  had(claim: ClaimFact, besides: readonly string[]): Found<readonly JudgedAllocation[]>;
  /** Whether a launcher pod of a VMI (UID) lives. */
  launcherLives(namespace: string, vmi: string): Found<boolean>;
  pod(namespace: string, name: string): Found<PodFact>;
  node(name: string): Found<NodeFact>;
  /** Whether a gone pod with this UID was seen with all containers ended (StoppedPods). False is no evidence. */
  wasSeenStopped(podUid: string): boolean;
  /** The network that a NAD (`namespace/name`) belongs to; unknown also when it is not one of ours. */
  networkOfNad(nad: string): Found<string>;
  /** Pods of the namespace that are not terminal and name the claim; `present` with an empty list: there are none. */
  podsNaming(namespace: string, claim: string): Found<readonly NamingPod[]>;
  /** Whether the guest of the claim's VM has migrated into another namespace and runs there, on this network. */
  guestRunsElsewhere(namespace: string, claim: string, network: string): boolean;
}

/** Whether the object found under a pod's name is the pod with the UID. */
export function isPod(fact: Pick<PodFact, "uid" | "staticUid">, uid: string): boolean {
  return fact.uid === uid || (fact.staticUid !== null && fact.staticUid === uid);
}
