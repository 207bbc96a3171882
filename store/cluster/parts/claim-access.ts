import type { PodIdentity } from "../../../allocations/records.ts";
import type { ClaimUser, KnownClaim } from "../../../ipam/attach-view.ts";
import type { Refusal } from "../../../ipam/refusals.ts";
import type { InterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AttachWant } from "../../allocations.ts";

/** An IPAMClaim as returned by one quorum read; `ips` as written in its status. */
export interface ClaimReading extends KnownClaim {
  readonly resourceVersion: string;
  readonly vm: { readonly name: string; readonly uid: string } | null;
}

/** What an ADD answers with. */
export interface Answered {
  readonly addresses: readonly InterfaceAddress[];
  /** One of them was not the claim's before: whoever reserves anew writes the claim, also where it is listed. */
  readonly isNew: boolean;
  /** What the claim had instead of what its VM asks for. */
  readonly instead: readonly InterfaceAddress[];
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
  /**
   * Whether the claim certainly has nothing on any network, so that nothing is to be looked for: of one that lists
   * nothing, whose pod was looked up. A VM's claim is made while its first VMI is reconciled, and never for the target
   * of a migration; for any other, nobody has written a status.
   */
  isFirstUse(claim: ClaimReading, want: Pick<AttachWant, "pod">): boolean;
  /** Of a pod that was looked up. */
  isMigrationTarget(want: Pick<AttachWant, "pod">): boolean;
  /**
   * Appends to the claim's list what it lacks, at the version that was read. `listed`: nothing had to be written;
   * `changed`: read and decide again. A node takes nothing from a list, and a full one stays as it is
   * (docs/decisions/0093). Throws RefusalError when the API server refuses it.
   */
  publish(
    claim: ClaimReading,
    answered: Answered,
    want: Pick<AttachWant, "pod" | "network">,
    deadlineMs: number,
  ): Promise<{ readonly resourceVersion: string } | "listed" | "changed">;
  /** Updates ownerPod and condition for a new attachment of a claim that lists it. After the answer; best effort. */
  follow(claim: ClaimReading, want: AttachWant): void;
  /** Records a refusal in the claim's condition, and in an event that names the refused pod. Best effort. */
  refused(claim: ClaimReading, refusal: Refusal, want: AttachWant, known: { readonly has: boolean }): void;
}
