import { OWNER_KINDS, type Owner, sameOwner } from "../../ipam/owner.ts";
import { cooldownEndMs, retainSeconds } from "../../ipam/space/cooldown.ts";
import type { Stamp } from "../../ipam/stamp.ts";
import type { EndReason } from "../allocations.ts";
import type { Transaction } from "./group-commit.ts";
import { allocationsOf, attachmentsOf } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import { type AllocationRow, type AttachmentRow, interfaceAddressOf, ownerOf } from "./rows.ts";

/**
 * Ends one attachment and releases the addresses that are no longer needed: a claim keeps its addresses until it is
 * deleted, any other owner loses them with its last attachment. `keep` names an owner that is about to attach again and
 * keeps its addresses; `del` is the stamp of the DEL that ends it, if that is to be remembered.
 */
export function endAttachment(
  ledger: Ledger,
  transaction: Transaction,
  row: AttachmentRow,
  reason: EndReason,
  { keep, del }: { readonly keep?: Owner; readonly del?: Stamp } = {},
): void {
  const nowMs = ledger.context.clock.wallMs();
  if (del === undefined) ledger.attachments.remove(row);
  else ledger.attachments.goByDel(row, del);
  ledger.sql.endHistory.run(nowMs, reason, row.history_id, row.history_id + row.history_count);
  const owner = ownerOf(row);
  if (keep && sameOwner(keep, owner)) return;
  if (OWNER_KINDS[owner.kind].outlivesAttachments) {
    const claim = ledger.sql.claimByUid.get(owner.uid);
    if (claim && claim.deleted_ms === null) return;
    forgetClaimWhenUnused(ledger, transaction, owner);
    return;
  }
  if (attachmentsOf(ledger, owner).some((other) => other.network_id === row.network_id)) return;
  for (const held of allocationsOf(ledger, row)) releaseAllocation(ledger, transaction, held);
}

/** A deleted claim stays while an attachment uses it; then it is removed together with its addresses. */
export function forgetClaimWhenUnused(ledger: Ledger, transaction: Transaction, owner: Owner): boolean {
  if (attachmentsOf(ledger, owner).length > 0) return false;
  for (const held of ledger.sql.boundOfClaim.all(owner.uid)) {
    endHolding(ledger, held, "claim deleted");
    retainAllocation(ledger, transaction, held);
  }
  ledger.sql.deleteClaim.run(owner.uid);
  return true;
}

export function endHolding(ledger: Ledger, held: AllocationRow, reason: EndReason): void {
  ledger.sql.endHolding.run(ledger.context.clock.wallMs(), reason, held.network_id, held.address, held.owner_uid);
}

/** Bound → Retained, for a claim of the same name; released as any other if the network retains nothing. */
function retainAllocation(ledger: Ledger, transaction: Transaction, row: AllocationRow): void {
  const space = ledger.networkById(row.network_id);
  const seconds = retainSeconds(space.definition);
  if (seconds === 0) {
    releaseAllocation(ledger, transaction, row);
    return;
  }
  const endedMs = ledger.context.clock.wallMs();
  ledger.sql.retainAllocation.run(endedMs, endedMs + seconds * 1_000, row.id);
  transaction.onRollback(space.retain(interfaceAddressOf(row).address));
}

/** Bound or Retained → Cooling, or free at once without a cool-down. The row keeps its owner, who may take it back. */
export function releaseAllocation(ledger: Ledger, transaction: Transaction, row: AllocationRow): void {
  const { clock } = ledger.context;
  const space = ledger.networkById(row.network_id);
  const nowMs = clock.monotonicMs();
  const endMs = cooldownEndMs(space.definition, nowMs);
  if (endMs > nowMs) ledger.sql.coolAllocation.run(clock.wallMs(), row.id);
  else ledger.sql.deleteAllocation.run(row.id);
  const { address } = interfaceAddressOf(row);
  transaction.onRollback(space.release(address, endMs, nowMs));
}
