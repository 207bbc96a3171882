import type { EndReason } from "../allocations.ts";
import type { NodeContext, StoreLog } from "../node-context.ts";
import { endAttachment } from "./end-attachment.ts";
import type { GroupCommit } from "./group-commit.ts";
import { ROWS_PER_STEP } from "./housekeeping.ts";
import type { Ledger } from "./ledger.ts";
import { type AttachmentRow, attachmentOf } from "./rows.ts";

/** Key under which the database keeps the boot that it last served. */
export const BOOT = "boot";
/** In the same table: the name of the node whose journal it is. */
const NODE = "node";

/**
 * A journal says what containers of its node have; under another node's name, as on a disk that was copied or moved,
 * its releases would be those of containers that run elsewhere. One that does not say whose it is becomes this node's.
 */
export function isOfThisNode({ sql, context }: Ledger): boolean {
  const written = sql.meta.get(NODE)?.value;
  return written === undefined || written === context.node;
}

export function noteNode({ sql, context }: Ledger): void {
  if (sql.meta.get(NODE) === undefined) sql.putMeta.run(NODE, context.node);
}

/** Ends the attachments of former boots: no container outlives its boot, and what outlived one is of this boot. */
export async function settleFormerBoots(ledger: Ledger, commits: GroupCommit, log: StoreLog): Promise<void> {
  const { sql, context } = ledger;
  for (const { boot_id: other, n, last_us: lastUs } of sql.otherBoots.all(context.bootId)) {
    if (!outlived(ledger, other, lastUs)) continue;
    await commits.submit(() => ledger.attachments.renameBoot(other, context.bootId));
    log.error(
      `${n} attachments are of boot ${other}, and this daemon sees boot ${context.bootId}, although the machine was not rebooted: they are kept (docs/operations.md, Boot IDs)`,
    );
  }
  let ended = 0;
  for (let after: number | null = 0; after !== null; ) {
    const from: number = after;
    const step = await commits.submit((transaction) => {
      const rows = sql.attachmentsAfter.all(from, ROWS_PER_STEP);
      const former = rows.filter((row) => row.boot_id !== context.bootId);
      const reason: EndReason = "reboot";
      for (const row of former) endAttachment(ledger, transaction, row, reason);
      const last: AttachmentRow | undefined = rows[rows.length - 1];
      return { ended: former.length, next: rows.length < ROWS_PER_STEP || !last ? null : last.id };
    });
    ended += step.ended;
    after = step.next;
  }
  if (sql.meta.get(BOOT)?.value !== context.bootId) await commits.submit(() => sql.putMeta.run(BOOT, context.bootId));
  if (ended > 0) log.info(`the machine was rebooted: ${ended} attachments of earlier boots ended`);
}

/** Whether a network namespace of that boot certainly still exists, so that it is not a former one. */
function outlived(ledger: Ledger, bootId: string, lastUs: number): boolean {
  const { bootTimeUs, namespaceAlive }: NodeContext = ledger.context;
  // The clock has restarted at zero since: what is at those paths now is not what was there.
  if (bootTimeUs === undefined || namespaceAlive === undefined || bootTimeUs() < lastUs) return false;
  for (let after = 0; ; ) {
    const rows = ledger.sql.attachmentsAfter.all(after, ROWS_PER_STEP);
    const last = rows[rows.length - 1];
    if (!last) return false;
    after = last.id;
    if (rows.some((row) => row.boot_id === bootId && namespaceAlive(attachmentOf(row, "").netns))) return true;
  }
}
