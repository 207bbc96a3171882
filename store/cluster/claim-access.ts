import type { ClaimUser, KnownClaim } from "../../ipam/attach-view.ts";
import type { Refusal } from "../../ipam/refusals.ts";
import type { AttachWant } from "../allocations.ts";
import type { PodIdentity } from "../records.ts";

/** An IPAMClaim as one quorum read showed it; `ips` as they are written in its status. */
export interface ClaimReading extends KnownClaim {
  readonly vm: { readonly name: string; readonly uid: string } | null;
}

/** What another attachment of a claim means for one that wants to join it. */
export type OtherAttachment = "gone" | "same-vm" | "in-use";

/** `completed`: it is there, and all its containers have ended for good. `gone`: also when its name is another pod's. */
export type PodState = "living" | "completed" | "gone";

/** What the store needs to know of claims and the pods that use them. Methods throw ApiAway. */
export interface ClaimAccess {
  /** A quorum read; null: there is no such claim. */
  read(
    claim: { readonly namespace: string; readonly name: string },
    deadlineMs: number,
  ): Promise<ClaimReading | null>;
  /** Why the pod of this attachment may not use the claim; null when it may. */
  whyNot(claim: ClaimReading, want: AttachWant, deadlineMs: number): Promise<Refusal | null>;
  /** Who is behind another user of the same claim, asked of the API itself. */
  other(
    claim: ClaimReading,
    user: Pick<ClaimUser, "pod">,
    want: AttachWant,
    deadlineMs: number,
  ): Promise<OtherAttachment>;
  /** A quorum read. Throws RefusalError too, when the API server refuses it. */
  podState(pod: PodIdentity, deadlineMs: number): Promise<PodState>;
  /** Whether no container of a pod can be alive on a node that its kubelet keeps, by a quorum read. Unknown is false. */
  hasEnded(pod: PodIdentity, deadlineMs: number): Promise<boolean>;
  /** Writes `status.ips` where there were none, against the version that was read. `changed`: read again and decide anew. */
  publish(
    claim: ClaimReading,
    ips: readonly string[],
    want: Pick<AttachWant, "pod">,
    deadlineMs: number,
  ): Promise<"published" | "changed">;
  /** Makes ownerPod and condition follow an attachment of a claim that has its addresses. After the answer; best effort. */
  follow(claim: ClaimReading, want: AttachWant): void;
  /** Tells in the claim's condition why it was refused, and in an event which pod it is that may not use it. Best effort. */
  refused(claim: ClaimReading, refusal: Refusal, want: AttachWant): void;
}
