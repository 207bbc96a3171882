/** What is known of an object. `unknown` is an answer of its own: whoever decides treats it as "in use". */
export type Found<T> =
  | { readonly kind: "present"; readonly it: T }
  | { readonly kind: "absent" }
  | { readonly kind: "unknown" };

export const ABSENT = { kind: "absent" } as const;
export const UNKNOWN = { kind: "unknown" } as const;

export function present<T>(it: T): Found<T> {
  return { kind: "present", it };
}

/** An address that a pod reports, and where. */
export interface ReportedAddress {
  /** Canonical, without mask. */
  readonly address: string;
  /** The NAD that it came through, `namespace/name`; null: none. */
  readonly nad: string | null;
  /** The name of a network that no NAD defines; null: it came through a NAD, or nobody said. */
  readonly network: string | null;
}

/** An IPAMClaim, as far as it decides about an address. */
export interface ClaimFact {
  readonly uid: string;
  /** Networks may overlap: what the claim lists is of this one. */
  readonly network: string;
  /** RFC 3339, in whole seconds of the API server's clock; compared with those of other objects only. */
  readonly creationTimestamp: string;
  /** Number of entries of `status.ips`, readable or not: 0 means that nothing was published yet. */
  readonly listedCount: number;
  /** Addresses of `status.ips`, canonical, without mask. */
  readonly addresses: readonly string[];
}

/** A node, as far as it decides about an address. */
export interface NodeFact {
  /** Its kubelet has not been heard for a while: the node's condition Ready is Unknown. */
  readonly unreachable: boolean;
}

/** A pod, as far as it decides about an address. */
export interface PodFact {
  readonly uid: string;
  /** null: not scheduled yet. */
  readonly node: string | null;
  /** UID by which the runtime knows a static pod, whose object in the API has another; null for others. */
  readonly staticUid: string | null;
  /** Succeeded or Failed, and none of its containers runs or will run again. */
  readonly terminal: boolean;
  readonly creationTimestamp: string;
  /** Addresses that its network status and the kubelet report. */
  readonly addresses: readonly ReportedAddress[];
  /** It reports more than were read: it may have any other address too. */
  readonly addressesCut: boolean;
}

/** A living pod whose network selection names a claim. */
export interface NamingPod extends PodFact {
  /** It is attached to an address of the claim with this UID: it uses that one, and no predecessor of the same name. */
  attachedToClaim(claimUid: string): boolean;
}

/** Everything that `judge` asks about the world. */
export interface Facts {
  claim(namespace: string, name: string): Found<ClaimFact>;
  pod(namespace: string, name: string): Found<PodFact>;
  node(name: string): Found<NodeFact>;
  /** Whether a pod of this UID that is gone was seen with all its containers ended (StoppedPods). False is no evidence. */
  wasSeenStopped(podUid: string): boolean;
  /** The network that a NAD (`namespace/name`) belongs to; unknown also when it is not one of ours. */
  networkOfNad(nad: string): Found<string>;
  /** Pods of the namespace that are not terminal and name the claim; `present` with an empty list means there are none. */
  podsNaming(namespace: string, claim: string): Found<readonly NamingPod[]>;
}

/** Whether the object found under a pod's name is the pod that the UID means. */
export function isPod(fact: Pick<PodFact, "uid" | "staticUid">, uid: string): boolean {
  return fact.uid === uid || (fact.staticUid !== null && fact.staticUid === uid);
}
