import type { PodIdentity } from "../../../allocations/records.ts";
import type { ClaimUser, KnownClaim } from "../../../ipam/attach-view.ts";
import type { Refusal } from "../../../ipam/refusals.ts";
import type { FollowedNetwork, NetworkAddresses } from "../../../kube/views/followed-network.ts";
import type { AttachWant } from "../../allocations.ts";

/** An IPAMClaim as returned by one quorum read; `ips` as written in its status. */
export interface ClaimReading extends KnownClaim {
  readonly resourceVersion: string;
  readonly vm: { readonly name: string; readonly uid: string } | null;
  /** What it had before, if its VM has gone to another network or has asked for other addresses. */
  readonly followed?: FollowedNetwork | null;
}

/** What another attachment of a claim means for a new one. */
export type OtherAttachment = "gone" | "same-vm" | "in-use";

/**
 * `completed`: the pod exists and all its containers have ended. `gone`: also when another pod has its name. `unseen`:
 * a static pod without its object, which the kubelet may run all the same.
 */
export type PodState = "living" | "completed" | "gone" | "unseen";

/** What the store needs to know about claims and the pods that use them. Methods throw ApiAway. */
export interface ClaimAccess {
  /** A quorum read; null: there is no such claim. */
  read(claim: { readonly namespace: string; readonly name: string }, deadlineMs: number): Promise<ClaimReading | null>;
  /** Why the pod of this attachment may not use the claim; null when it may. */
  whyNot(claim: ClaimReading, want: AttachWant, deadlineMs: number): Promise<Refusal | null>;
  /**
   * Whether the claim certainly is of the VM that the pod of this attachment runs, by UID, and the VM's interface is to
   * be on the pod's network.
   */
  mayFollow(claim: ClaimReading, want: AttachWant, deadlineMs: number): Promise<boolean>;
  /** State of another user of the same claim, by quorum reads. */
  other(
    claim: ClaimReading,
    user: Pick<ClaimUser, "pod">,
    want: AttachWant,
    deadlineMs: number,
  ): Promise<OtherAttachment>;
  /** A quorum read. Also throws RefusalError, when the API server refuses it. */
  podState(pod: PodIdentity, deadlineMs: number): Promise<PodState>;
  /** Whether no container of a pod can still run on its node, by a quorum read. Unknown is false. */
  hasEnded(pod: PodIdentity, deadlineMs: number): Promise<boolean>;
  /** Writes `status.ips` where there were none, at the version that was read. `changed`: read and decide again. */
  publish(
    claim: ClaimReading,
    ips: readonly string[],
    want: Pick<AttachWant, "pod">,
    deadlineMs: number,
  ): Promise<{ readonly resourceVersion: string } | "changed">;
  /**
   * Writes `spec.network`, at the version that was read, and what the claim has there. Returns the claim as written,
   * whose list is to be published. `changed`: read and decide again. Throws RefusalError when the API server refuses
   * it.
   */
  changeNetwork(
    claim: ClaimReading,
    to: NetworkAddresses,
    want: Pick<AttachWant, "pod">,
    deadlineMs: number,
  ): Promise<ClaimReading | "changed">;
  /** Notes that the list of a claim that has changed its network is written. Best effort. */
  closeChange(claim: ClaimReading, deadlineMs: number): Promise<void>;
  /** Updates ownerPod and condition for a new attachment of a claim with addresses. After the answer; best effort. */
  follow(claim: ClaimReading, want: AttachWant): void;
  /** Records a refusal in the claim's condition, and in an event that names the refused pod. Best effort. */
  refused(claim: ClaimReading, refusal: Refusal, want: AttachWant): void;
}
