import { isBefore } from "../../ipam/stamp.ts";
import type { DetachOutcome, DetachWant } from "../allocations.ts";
import { BOOT } from "../journal/former-boots.ts";
import { abandonIntent, endRow } from "../journal/intents.ts";
import type { Ledger } from "../journal/ledger.ts";
import { attachmentOf } from "../journal/rows.ts";

/**
 * One DEL, in a transaction of the journal: ends what is older than it, including unfinished ADDs, and leaves a
 * tombstone. The outbox tells the API server.
 */
export function detach(ledger: Ledger, want: DetachWant): DetachOutcome {
  const { sql, context } = ledger;
  const { bootId, us } = want.stamp;
  // What is still to be recovered from the API may be of an earlier boot, and must not be recovered then.
  if (bootId === context.bootId || sql.meta.get(BOOT)?.value !== context.bootId) {
    sql.putTombstone.run(want.containerId, want.interface, want.network ?? "", bootId, us);
  }
  const concerns = (row: { network_id: number; boot_id: string; boot_us: number }) =>
    (want.network === null || ledger.networkById(row.network_id).name === want.network) &&
    isBefore({ bootId: row.boot_id, us: row.boot_us }, want.stamp, context.bootId);
  const ended = sql.attachmentsOfContainer.all(want.containerId, want.interface).filter(concerns);
  for (const row of ended) endRow(ledger, row, want.reason);
  const intents = sql.intentsOfContainer.all(want.containerId, want.interface).filter(concerns);
  for (const row of intents) abandonIntent(ledger, row);
  return { ended: ended.map((row) => attachmentOf(row, ledger.networkById(row.network_id).name)) };
}
