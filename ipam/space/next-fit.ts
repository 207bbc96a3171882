/** The first number from a position on, wrapping around at the end; null: there is none. */
export type NextFrom = (position: bigint) => bigint | null;

/** All that `nextFrom` finds, from `startAt` once around, none twice; what comes or goes meanwhile, perhaps. */
export function* nextFit(startAt: bigint, nextFrom: NextFrom): Generator<bigint> {
  let position = startAt;
  let wrapped = false;
  for (;;) {
    const next = nextFrom(position);
    if (next === null) return;
    if (next < position) {
      if (wrapped) return;
      wrapped = true;
    }
    if (wrapped && next >= startAt) return;
    yield next;
    position = next + 1n;
  }
}

export function nextOfBoth(a: NextFrom, b: NextFrom): NextFrom {
  return (position) => {
    const [nextA, nextB] = [a(position), b(position)];
    if (nextA === null || nextB === null) return nextA ?? nextB;
    // A number that is not below the position comes before one that is; otherwise the lower number comes first.
    const aIsAhead = nextA >= position;
    const bIsAhead = nextB >= position;
    const aComesFirst = aIsAhead === bIsAhead ? nextA <= nextB : aIsAhead;
    return aComesFirst ? nextA : nextB;
  };
}
