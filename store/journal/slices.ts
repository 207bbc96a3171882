import { pauseAfter } from "../../platform/listeners/reader-queue.ts";
import { StorageAway } from "../allocations.ts";
import type { Ledger } from "./ledger.ts";
import type { AllocationRow, AttachmentRow, ClaimRow } from "./rows.ts";

/** Rows read in one turn of the event loop: a millisecond of work. */
export const SLICE_ROWS = 64;

/**
 * What `read` yields, each slice read in a turn of its own: requests are served in between, and memory does not grow
 * with the table. A slice sees everything that was committed before it, so a row that is there all the time is seen
 * once, and one that comes or goes meanwhile may be seen (docs/decisions/0053). Throws StorageAway when the database
 * was closed meanwhile.
 */
export async function* inSlices<Slice>(
  directory: { readonly ledger: Ledger },
  read: (ledger: Ledger) => Iterable<Slice>,
): AsyncGenerator<Slice> {
  const { ledger } = directory;
  const { clock } = ledger.context;
  let sinceMs = clock.monotonicMs();
  for (const slice of read(ledger)) {
    yield slice;
    await pauseAfter(clock, sinceMs);
    sinceMs = clock.monotonicMs();
    if (directory.ledger !== ledger)
      throw new StorageAway("the state database was opened again while it was read: ask again");
  }
}

interface SliceQuery<Position extends unknown[], Row> {
  iterate(...parameters: [...Position, limit: number]): IterableIterator<Row>;
}

/**
 * What becomes of rows in the order of their positions, in slices. One row is in memory at a time: rows that wait for
 * each other outlive a collection of garbage, and what has done so is collected late.
 */
export function* mapSlices<Position extends unknown[], Row, Result>(
  query: SliceQuery<Position, Row>,
  after: Position,
  positionOf: (row: Row) => Position,
  map: (row: Row) => readonly Result[],
  isPast: (row: Row) => boolean = () => false,
): Generator<Result[]> {
  let position = after;
  for (let rows = SLICE_ROWS; rows === SLICE_ROWS; ) {
    const results: Result[] = [];
    rows = 0;
    for (const row of query.iterate(...position, SLICE_ROWS)) {
      if (isPast(row)) {
        rows = 0;
        break;
      }
      for (const result of map(row)) results.push(result);
      position = positionOf(row);
      rows += 1;
    }
    yield results;
  }
}

/**
 * The same for attachments, in their order, up to the one that was the last when the scan began: under a load that
 * attaches faster than the scan reads, it would not end before the load does.
 */
export function mapAttachments<Result>(
  { sql, ids }: Ledger,
  map: (row: AttachmentRow) => readonly Result[],
  after = 0,
): Generator<Result[]> {
  const { last } = ids;
  return mapSlices(
    sql.attachmentsAfter,
    [after],
    ({ id }) => [id],
    map,
    ({ id }) => id > last,
  );
}

export function mapAllocations<Result>(
  { sql }: Ledger,
  map: (row: AllocationRow) => readonly Result[],
): Generator<Result[]> {
  const last = sql.lastAllocationId.get()?.id ?? 0;
  return mapSlices(
    sql.allocationsAfter,
    [0],
    ({ id }) => [id],
    map,
    ({ id }) => id > last,
  );
}

/** The same for claims, by namespace and name. */
export function mapClaims<Result>(
  { sql }: Ledger,
  map: (claim: ClaimRow) => readonly Result[],
  after: [namespace: string, name: string] = ["", ""],
): Generator<Result[]> {
  return mapSlices(sql.claimsAfter, after, ({ namespace, name }) => [namespace, name], map);
}
