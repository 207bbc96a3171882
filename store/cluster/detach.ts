import { isBefore } from "../../ipam/stamp.ts";
import type { DetachOutcome, DetachWant } from "../allocations.ts";
import { BOOT } from "../journal/former-boots.ts";
import type { Transaction } from "../journal/group-commit.ts";
import type { Ledger } from "../journal/ledger.ts";
import { attachmentOf } from "../journal/rows.ts";
import { abandon, endRow, rememberDel } from "../journal/uses.ts";

/** Ends what is older than the DEL, unfinished ADDs too; the releases are sent later (agreement/over.ts). */
export function detach(ledger: Ledger, transaction: Transaction, want: DetachWant): DetachOutcome {
  const { sql, context } = ledger;
  const concerns = (row: { network_id: number; boot_id: string; boot_us: number }) =>
    (want.network === null || ledger.networkById(row.network_id).name === want.network) &&
    isBefore({ bootId: row.boot_id, us: row.boot_us }, want.stamp, context.bootId);
  const ended = sql.attachmentsOfContainer.all(want.containerId, want.interface).filter(concerns);
  for (const row of ended) endRow(ledger, row, want.reason);
  for (const row of sql.takingOfContainer.all(want.containerId, want.interface).filter(concerns)) abandon(ledger, row);
  // What is still to be recovered from the API may be of an earlier boot, and must not be recovered then.
  if (want.stamp.bootId === context.bootId || sql.meta.get(BOOT)?.value !== context.bootId)
    rememberDel(ledger, transaction, want);
  return { ended: ended.map((row) => attachmentOf(row, ledger.networkById(row.network_id).name)) };
}
