import { IntervalSet } from "../../ipam/space/interval-set.ts";
import { RunIndex } from "../../ipam/space/run-index.ts";
import { INDEX_MAX } from "../../kube/metal3.ts";

interface Held {
  readonly template: string;
  readonly index: number;
}

interface IndexSpace {
  readonly free: RunIndex;
  /** How many holders an index has: a data object and the claim that it is for hold the same one. */
  readonly counts: Map<number, number>;
}

/** Which indexes of each template are in use, and the lowest that is not: O(log n) for each operation. */
export class TemplateIndexes {
  readonly #spaces = new Map<string, IndexSpace>();
  readonly #held = new Map<string, Held>();

  /** A holder has one index at a time. `template`: `namespace/name`. An index that no definition accepts is ignored. */
  hold(holder: string, template: string, index: number): void {
    const known = this.#held.get(holder);
    if (known?.template === template && known.index === index) return;
    this.drop(holder);
    if (!Number.isInteger(index) || index < 0 || index > INDEX_MAX) return;
    const space = this.#spaceOf(template);
    const count = space.counts.get(index) ?? 0;
    if (count === 0) space.free.take(BigInt(index));
    space.counts.set(index, count + 1);
    this.#held.set(holder, { template, index });
  }

  drop(holder: string): void {
    const held = this.#held.get(holder);
    if (held === undefined) return;
    this.#held.delete(holder);
    const space = this.#spaceOf(held.template);
    const count = (space.counts.get(held.index) ?? 1) - 1;
    if (count > 0) {
      space.counts.set(held.index, count);
      return;
    }
    space.counts.delete(held.index);
    space.free.give(BigInt(held.index));
    if (space.counts.size === 0) this.#spaces.delete(held.template);
  }

  /** The lowest index from `from` on that nobody holds; null: there is none. */
  lowestFree(template: string, from = 0): number | null {
    const space = this.#spaces.get(template);
    if (space === undefined) return from;
    const found = space.free.nextFrom(BigInt(from));
    return found === null || found < BigInt(from) ? null : Number(found);
  }

  #spaceOf(template: string): IndexSpace {
    let space = this.#spaces.get(template);
    if (space === undefined) {
      space = { free: new RunIndex(IntervalSet.of(0n, BigInt(INDEX_MAX))), counts: new Map() };
      this.#spaces.set(template, space);
    }
    return space;
  }
}
