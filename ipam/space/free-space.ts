import { type Family, formatAddress } from "./address.ts";
import { type Cidr, cidrContains, cidrFirst, cidrLast, formatCidr, formatInterfaceAddress } from "./cidr.ts";
import { type Interval, IntervalSet } from "./interval-set.ts";
import type { Pool } from "./pool.ts";

/** Runs of free addresses in one answer; a subnet narrows it. */
export const FREE_RUNS_MAX = 1_000;

export interface FreeQuestion {
  /** How many of the next addresses. */
  readonly count: number;
  /** Only of this part of the network; null: of all of it. */
  readonly within: Cidr | null;
  /** Where the next search begins is known: else any free address may be the next one, and the lowest are named. */
  readonly isNext: boolean;
}

interface FreeRun {
  readonly first: string;
  readonly last: string;
  /** A decimal number: one of IPv6 does not fit a JSON number. */
  readonly size: string;
}

/** The free addresses of one range set; those that cool down, or are reserved, are not among them. */
export interface FreeRange {
  readonly subnets: readonly string[];
  /** A decimal number. */
  readonly free: string;
  /** Ascending. */
  readonly runs: readonly FreeRun[];
  /** Runs that are left out, because there are too many. */
  readonly moreRuns: number;
  /** With prefix length, in the order in which they are given. */
  readonly next: readonly string[];
}

/** What is free in a pool, after its cool-downs were expired; null: the question is about another part. */
export function freeRange(pool: Pool, { count, within, isNext }: FreeQuestion): FreeRange | null {
  const { family, subnets } = pool.rangeSet;
  const asked = within === null ? null : partOf(pool, within);
  if (within !== null && asked === null) return null;
  const all = runsOf(pool, asked);
  const next = count === 0 ? [] : inOrder(all, isNext ? pool.cursor : null, count);
  return {
    subnets: within === null ? subnets.map(({ cidr }) => formatCidr(cidr)) : [formatCidr(within)],
    free: String(all.reduce((sum, { first, last }) => sum + last - first + 1n, 0n)),
    runs: all.slice(0, FREE_RUNS_MAX).map(({ first, last }) => ({
      first: formatAddress({ family, value: first }),
      last: formatAddress({ family, value: last }),
      size: String(last - first + 1n),
    })),
    moreRuns: Math.max(0, all.length - FREE_RUNS_MAX),
    next: next.map((value) => textOf(pool, family, value)),
  };
}

/** null: it is in none of the pool's subnets. */
function partOf({ rangeSet: { family, subnets } }: Pool, within: Cidr): IntervalSet | null {
  const [first, last] = [cidrFirst(within), cidrLast(within)];
  const isInside = subnets.some(({ cidr }) =>
    [first, last].every((value) => cidrContains(cidr, { family: within.family, value })),
  );
  return family === within.family && isInside ? IntervalSet.of(first, last) : null;
}

function runsOf(pool: Pool, within: IntervalSet | null): Interval[] {
  const [first, last] = [within?.first ?? null, within?.last ?? null];
  const runs: Interval[] = [];
  for (const run of pool.freeRuns()) {
    if (last !== null && run.first > last) break;
    if (first !== null && run.last < first) continue;
    runs.push({
      first: first !== null && run.first < first ? first : run.first,
      last: last !== null && run.last > last ? last : run.last,
    });
  }
  return runs;
}

/** The next ones from a place on, wrapping around, as the pool's candidates are tried. */
function inOrder(runs: readonly Interval[], from: bigint | null, count: number): bigint[] {
  const found: bigint[] = [];
  const take = (first: bigint, last: bigint) => {
    for (let value = first; value <= last && found.length < count; value += 1n) found.push(value);
  };
  const start = from ?? runs[0]?.first ?? 0n;
  for (const { first, last } of runs) if (last >= start) take(first > start ? first : start, last);
  for (const { first, last } of runs) if (first < start) take(first, last < start ? last : start - 1n);
  return found;
}

function textOf(pool: Pool, family: Family, value: bigint): string {
  const prefixLength = pool.subnetOf(value)?.cidr.prefixLength ?? (family === 4 ? 32 : 128);
  return formatInterfaceAddress({ address: { family, value }, prefixLength });
}
