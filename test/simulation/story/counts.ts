import type { Counts } from "../world.ts";

/** How often each thing was exercised. */
export class KeptCounts implements Counts {
  readonly #counts = new Map<string, number>();

  add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /** In the order of names. */
  get all(): readonly (readonly [name: string, count: number])[] {
    return [...this.#counts].sort(([one], [other]) => (one < other ? -1 : 1));
  }
}

/** What was never counted. */
export function missingOf(owed: readonly string[], counts: KeptCounts): readonly string[] {
  return owed.filter((name) => counts.of(name) === 0);
}
