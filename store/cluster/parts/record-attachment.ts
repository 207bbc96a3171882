import { isLearnt } from "../../../allocations/records.ts";
import { supersededBy } from "../../../ipam/decide-repeat.ts";
import { sameOwner } from "../../../ipam/owner.ts";
import { formatAddress } from "../../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../../ipam/space/cidr.ts";
import type { AttachOutcome, AttachWant } from "../../allocations.ts";
import { record } from "../../journal/attachment-journal.ts";
import type { Transaction } from "../../journal/group-commit.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { addressesOf, attachmentOf, ownerOf, type TakingRow } from "../../journal/rows.ts";
import { abandon, addPending, endRow, isOvertaken, takingOf } from "../../journal/uses.ts";
import type { AttachParts, ClusterAttacher } from "./attach-parts.ts";

/** Makes attachment and history durable; a DEL that came meanwhile undoes everything. */
export async function recordAttachment(
  parts: AttachParts,
  want: AttachWant,
  { owner, superseded, warnings }: ClusterAttacher,
  addresses: readonly InterfaceAddress[],
  version: number,
): Promise<AttachOutcome> {
  const { containerId, interface: interfaceName, network, definition } = want;
  let mayBePending = superseded.length > 0;
  let hasLeft = false;
  const work = (ledger: Ledger, transaction: Transaction): AttachOutcome => {
    const space = ledger.networkOf(network, transaction);
    const kept = new Set(addresses.map((one) => formatAddress(one.address)));
    const overtaken = isOvertaken(ledger, want);
    const key = { containerId, interface: interfaceName };
    let own: TakingRow | null = null;
    for (const row of takingOf(ledger, owner, space.id)) {
      const isOwn = row.container_id === containerId && row.interface === interfaceName;
      if (overtaken || !isOwn) {
        // Begun by another container: its attachment is also removed from an address that is kept.
        mayBePending = true;
        abandon(ledger, row);
        continue;
      }
      own = row;
      const left = addressesOf(row).filter(({ address }) => !kept.has(formatAddress(address)));
      hasLeft ||= left.length > 0;
      addPending(ledger, transaction, { network, addresses: left, owner, ...key, uncertain: true, ended: true });
    }
    if (overtaken) {
      mayBePending = true;
      addPending(ledger, transaction, { network, addresses, owner, ...key, uncertain: false, ended: true });
      return { kind: "refused", refusal: supersededBy(want, "a later DEL") };
    }
    for (const { attachment, reason } of superseded) {
      const continues = sameOwner(ownerOf(attachment.row), owner);
      const why = attachment.isLost ? "lost to another owner" : reason;
      endRow(ledger, attachment.row, why, continues ? kept : undefined);
    }
    if (owner.kind === "pod") {
      // What the API has told meanwhile of the pod's sandbox before (own-objects.ts): this one took its address over.
      for (const row of ledger.sql.attachmentsOfOwner.all(owner.uid, owner.interface, owner.kind)) {
        const isFormer = row.container_id !== containerId && row.network_id === space.id;
        if (isFormer && isLearnt(attachmentOf(row, network))) endRow(ledger, row, "newer sandbox", kept);
      }
    }
    const attachment = record(ledger, space, definition, owner, want, addresses, {
      version,
      taking: own,
    });
    return { kind: "attached", attachment, definition, repeat: false, warnings };
  };
  const outcome = await parts.directory.write(work, { canRepeat: true });
  // Reserved by an earlier round, and not answered: nobody may find this container attached to two of a subnet.
  if (hasLeft) await parts.letGo({ containerId, interface: interfaceName });
  if (mayBePending) parts.pending();
  return outcome;
}
