import { isBefore } from "../../ipam/stamp.ts";
import type { DetachOutcome, DetachWant, EndReason } from "../allocations.ts";
import { endAttachment } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { nameInterface } from "../journal/host-local.ts";
import type { Ledger } from "../journal/ledger.ts";
import { type AttachmentRow, attachmentOf } from "../journal/rows.ts";
import { rememberDel } from "../journal/uses.ts";

/** One DEL inside a transaction: ends what is older than it, and remembers it for what may still be on its way. */
export function detach(ledger: Ledger, transaction: Transaction, want: DetachWant): DetachOutcome {
  const { sql, context } = ledger;
  // A DEL of another boot has no ADD on its way: the processes of that boot are gone.
  const isRemembered = want.stamp.bootId === context.bootId;
  nameInterface(ledger, want);
  const ended = sql.attachmentsOfContainer
    .all(want.containerId, want.interface)
    .filter((row) => want.network === null || ledger.networkById(row.network_id).name === want.network)
    .filter((row) => isBefore({ bootId: row.boot_id, us: row.boot_us }, want.stamp, context.bootId));
  const how = isRemembered ? { del: want.stamp } : {};
  for (const row of ended) endAttachment(ledger, transaction, row, want.reason, how);
  if (isRemembered) rememberDel(ledger, transaction, want);
  return { ended: ended.map((row) => attachmentOf(row, ledger.networkById(row.network_id).name)) };
}

/** Ends one attachment by its id, if it is still the one that was read. Returns whether it was. */
export function endById(
  ledger: Ledger,
  transaction: Transaction,
  which: Pick<AttachmentRow, "id" | "boot_us">,
  reason: EndReason,
): boolean {
  const row = ledger.sql.attachmentById.get(which.id);
  if (!row || row.boot_us !== which.boot_us) return false;
  endAttachment(ledger, transaction, row, reason);
  return true;
}
