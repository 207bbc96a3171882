/*
 * store/cluster/parts/: what the files of store/cluster/ share
 *
 *   attach-parts                 what one ADD works with
 *   claim-access                 the claim
 *   find-own, holdings           what an owner has
 *   record-attachment            the attachment in the journal
 *   node-identity                whether this machine is the node whose name it uses
 *   machine-address              the IPAddress of a machine
 *   keyed-mutex                  one request of an owner at a time
 */

import type { AllocationClient } from "../../../allocations/allocation-client.ts";
import type { AttachedHolder } from "../../../allocations/allocation-object.ts";
import { attachmentOfWant, toAllocationOwner } from "../../../allocations/owners.ts";
import type { Picture } from "../../../allocations/picture.ts";
import type { Attacher } from "../../../ipam/attach-view.ts";
import { isoTime } from "../../../platform/time.ts";
import type { AttachWant } from "../../allocations.ts";
import type { JournalAttachment } from "../../journal/journal-attachment.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";
import type { NodeContext } from "../../node-context.ts";
import type { Continuity } from "../contact/continuity.ts";
import type { ClaimAccess, ClaimReading } from "./claim-access.ts";

export interface AttachParts {
  readonly directory: StateDirectory;
  readonly context: NodeContext;
  readonly client: AllocationClient;
  readonly picture: Picture;
  readonly claimAccess: ClaimAccess;
  readonly continuity: Continuity;
  pending(): void;
  /** Sends what is pending of a container's interface. Throws ApiAway. */
  letGo(of: Pick<AttachWant, "containerId" | "interface">): Promise<void>;
}

export type ClusterAttacher = Attacher<JournalAttachment, ClaimReading>;

export function holderOf(
  { context }: Pick<AttachParts, "context">,
  want: AttachWant,
  { owner, claim }: Pick<ClusterAttacher, "owner" | "claim">,
): AttachedHolder {
  return {
    owner: toAllocationOwner(owner),
    vm: claim?.vm ?? undefined,
    mac: want.mac,
    attachment: attachmentOfWant(want, context.node, isoTime(context.clock.wallMs())),
  };
}
