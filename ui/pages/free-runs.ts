import { type Address, type Cidr, compareAddresses, type Family, parseAddress } from "../pictures/addresses.ts";

/** Consecutive addresses; ends are inclusive. */
export interface Run {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
}

/** The runs of an answer about free addresses: ascending, IPv4 before IPv6. */
export function runsIn(
  ranges: readonly { readonly runs: readonly { readonly first: string; readonly last: string }[] }[],
): Run[] {
  const found = ranges.flatMap(({ runs }) =>
    runs.flatMap(({ first, last }) => {
      const [from, to] = [parseAddress(first), parseAddress(last)];
      return from === null || to === null ? [] : [{ family: from.family, first: from.value, last: to.value }];
    }),
  );
  const start = ({ family, first }: Run) => ({ family, value: first });
  return found.sort((a, b) => compareAddresses(start(a), start(b)));
}

/** Whether one of the runs, which are in order, has an address. */
export function isIn(runs: readonly Run[], address: Address): boolean {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const { family, last } = runs[middle] as Run;
    if (compareAddresses({ family, value: last }, address) < 0) low = middle + 1;
    else high = middle;
  }
  const run = runs[low];
  return run !== undefined && run.family === address.family && run.first <= address.value;
}

/** What is left of the runs without the addresses that are taken (sorted). */
export function without(runs: readonly Run[], taken: readonly bigint[]): Run[] {
  const left: Run[] = [];
  let at = 0;
  for (const { family, first, last } of runs) {
    let next = first;
    while (at < taken.length && (taken[at] as bigint) < first) at += 1;
    for (; at < taken.length && (taken[at] as bigint) <= last; at += 1) {
      const value = taken[at] as bigint;
      if (value > next) left.push({ family, first: next, last: value - 1n });
      next = value + 1n;
    }
    if (next <= last) left.push({ family, first: next, last });
  }
  return left;
}

export function within(runs: readonly Run[], subnet: Cidr): Run[] {
  return runs
    .filter(({ family, first, last }) => family === subnet.family && first <= subnet.last && last >= subnet.first)
    .map(({ family, first, last }) => ({
      family,
      // biome-ignore lint/complexity/useMathMinMax: Math has no bigint
      first: first < subnet.first ? subnet.first : first,
      // biome-ignore lint/complexity/useMathMinMax: as above
      last: last > subnet.last ? subnet.last : last,
    }));
}
