/** A part of a subnet: addresses that are held, or that are not. Ends are inclusive. */
export interface Interval {
  readonly kind: "held" | "free";
  readonly first: bigint;
  readonly last: bigint;
  readonly size: bigint;
  /** How many of its addresses are held; less than its size where small gaps are part of it. */
  readonly held: number;
}

/** Fewer free addresses between two holders are not worth a row of their own. */
export const GAP_SHOWN_MIN = 16n;

/** Covers the subnet exactly, in order, whatever its size. `held` is sorted; values outside the subnet are ignored. */
export function intervalRows(
  subnet: { readonly first: bigint; readonly last: bigint },
  held: readonly bigint[],
): Interval[] {
  const rows: Interval[] = [];
  let next = subnet.first;
  for (const { first, last, count } of heldRuns(subnet, held)) {
    if (first > next) rows.push(interval("free", next, first - 1n, 0));
    rows.push(interval("held", first, last, count));
    next = last + 1n;
  }
  if (next <= subnet.last) rows.push(interval("free", next, subnet.last, 0));
  return rows;
}

interface Run {
  readonly first: bigint;
  last: bigint;
  count: number;
}

function heldRuns(subnet: { readonly first: bigint; readonly last: bigint }, held: readonly bigint[]): Run[] {
  const runs: Run[] = [];
  let run: Run | undefined;
  for (const value of held) {
    if (value < subnet.first || value > subnet.last || value === run?.last) continue;
    if (run !== undefined && value - run.last - 1n < GAP_SHOWN_MIN) {
      run.last = value;
      run.count += 1;
    } else {
      run = { first: value, last: value, count: 1 };
      runs.push(run);
    }
  }
  return runs;
}

function interval(kind: Interval["kind"], first: bigint, last: bigint, held: number): Interval {
  return { kind, first, last, size: last - first + 1n, held };
}
