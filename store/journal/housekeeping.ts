import { addressFromBytes } from "../../ipam/space/address.ts";
import { releaseAllocation } from "./end-attachment.ts";
import type { Transaction } from "./group-commit.ts";
import type { Ledger } from "./ledger.ts";

/** Rows handled in one transaction of housekeeping: it shares the event loop with ADDs. */
export const ROWS_PER_STEP = 200;
/** Periods kept in the history; the oldest ended ones are deleted first. At 10 pods a minute, more than two months. */
const HISTORY_ROWS_MAX = 1_000_000;
/** Steps of one housekeeping, every five seconds: 2,000 rows a second, more than a node can attach for long. */
export const PRUNE_STEPS_MAX = 50;
/** A DEL is remembered longer than any ADD can be on its way: the plugin binary gives up after 60 s. One hour, µs. */
const GONE_KEEP_US = 3_600_000_000;

/**
 * Deletes rows whose cool-down is over, as the pools know it (monotonic clock); rows of undefined networks are kept.
 * Returns where to go on, null at the end.
 */
export function dropCooled(ledger: Ledger, transaction: Transaction, afterId: number): number | null {
  const nowMs = ledger.context.clock.monotonicMs();
  const rows = ledger.sql.coolingAfter.all(afterId, ROWS_PER_STEP);
  for (const row of rows) {
    const space = ledger.networkById(row.network_id);
    if (space.definition === null) continue;
    const address = addressFromBytes(row.address);
    const all = ledger.poolsOf(space, space.definition, transaction);
    const pools = all.filter((pool) => pool.rangeSet.family === address.family);
    for (const pool of pools) pool.expire(nowMs);
    if (pools.some((pool) => pool.stateOf(address.value) === "cooling")) continue;
    ledger.sql.deleteAllocation.run(row.id);
  }
  return rows.length < ROWS_PER_STEP ? null : (rows[rows.length - 1]?.id ?? null);
}

/**
 * Ends retentions whose time is over, by the wall clock: they outlive restarts; and all of networks that retain nothing
 * any more. Returns whether there is more to do.
 */
export function endRetentions(ledger: Ledger, transaction: Transaction): boolean {
  const ended = [...ledger.networks.values()].filter(({ definition }) => definition?.retainSeconds === 0);
  const ids = JSON.stringify(ended.map(({ id }) => id));
  const rows = ledger.sql.retainedOver.all(ids, ledger.context.clock.wallMs(), ROWS_PER_STEP);
  for (const row of rows) releaseAllocation(ledger, transaction, row);
  return rows.length === ROWS_PER_STEP;
}

/** Deletes old history, and what has been gone for long. Returns whether there is more to do. */
export function prune(ledger: Ledger, nowUs: number): boolean {
  ledger.sql.pruneGone.run(ledger.context.bootId, nowUs - GONE_KEEP_US);
  const { first, last } = ledger.sql.historyIds.get() ?? { first: null, last: null };
  if (first === null || last === null || last - first < HISTORY_ROWS_MAX) return false;
  return ledger.sql.pruneHistory.run(last - HISTORY_ROWS_MAX, ROWS_PER_STEP).changes === ROWS_PER_STEP;
}
