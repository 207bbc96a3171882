import { pauseAfter } from "../../platform/listeners/reader-queue.ts";
import { StorageAway } from "../allocations.ts";
import type { Ledger } from "./ledger.ts";
import type { ClaimRow } from "./rows.ts";

/** Rows read in one turn of the event loop: a millisecond of work. */
export const SLICE_ROWS = 64;

/**
 * What `read` yields, each slice read in a turn of its own: requests are served in between, and memory does not grow
 * with the table. A slice sees everything that was committed before it, so a row that is there all the time is seen
 * once, and one that comes or goes meanwhile may be seen (docs/decisions/0053). Throws StorageAway when the database was
 * closed meanwhile.
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

/** A statement that reads some rows after a position. */
interface SliceQuery<Position extends unknown[], Row> {
  iterate(...parameters: [...Position, limit: number]): IterableIterator<Row>;
}

/**
 * What becomes of rows in the order of their positions, in slices. One row is in memory at a time: rows that wait for
 * each other outlive a collection of garbage, and what has done so is collected late. Of rows with
 * IDs those that are inserted meanwhile are read too, so a scan under a load that inserts faster than it reads ends with the load.
 */
export function* mapSlices<Position extends unknown[], Row, Result>(
  query: SliceQuery<Position, Row>,
  after: Position,
  positionOf: (row: Row) => Position,
  map: (row: Row) => readonly Result[],
): Generator<Result[]> {
  let position = after;
  for (let rows = SLICE_ROWS; rows === SLICE_ROWS; ) {
    const results: Result[] = [];
    rows = 0;
    for (const row of query.iterate(...position, SLICE_ROWS)) {
      for (const result of map(row)) results.push(result);
      position = positionOf(row);
      rows += 1;
    }
    yield results;
  }
}

/** The same for rows with IDs. */
export function mapById<Row extends { readonly id: number }, Result>(
  query: SliceQuery<[number], Row>,
  map: (row: Row) => readonly Result[],
  after = 0,
): Generator<Result[]> {
  return mapSlices(query, [after], ({ id }) => [id], map);
}

/** The same for claims, by namespace and name. */
export function mapClaims<Result>(
  { sql }: Ledger,
  map: (claim: ClaimRow) => readonly Result[],
  after: [namespace: string, name: string] = ["", ""],
): Generator<Result[]> {
  return mapSlices(sql.claimsAfter, after, ({ namespace, name }) => [namespace, name], map);
}
