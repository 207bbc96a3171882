import type { Verdict } from "../../claims/reasons/verdict.ts";
import type { IPAllocation } from "../../kube/objects.ts";

/** A verdict that has stood long enough, and the allocation as it was judged. */
export interface Due {
  readonly object: IPAllocation;
  readonly verdict: Verdict;
}

/** Verdicts that are carried out by one list of the pods of their namespace, at most. */
const GROUP_MAX = 100;

const DELETIONS = "deletions";

/** By the namespace of their owners, deletions apart, each by name. */
type Queue = Map<string, Map<string, Due>>;

/**
 * What is to be carried out, in groups that read something in common. One that keeps failing does not hold up others:
 * whatever was tried before comes after everything that was not.
 */
export class DueVerdicts {
  readonly #first: Queue = new Map();
  readonly #again: Queue = new Map();
  readonly #queueOf = new Map<string, { readonly queue: Queue; readonly key: string }>();

  get size(): number {
    return this.#queueOf.size;
  }

  set(due: Due, { wasTried }: { readonly wasTried: boolean }): void {
    const { metadata, spec } = due.object;
    const isDeletion = due.verdict.kind === "delete";
    this.delete(metadata.name);
    const queue = wasTried ? this.#again : this.#first;
    const key = isDeletion ? DELETIONS : `in ${spec.owner?.namespace}`;
    const group = queue.get(key) ?? new Map<string, Due>();
    queue.set(key, group.set(metadata.name, due));
    this.#queueOf.set(metadata.name, { queue, key });
  }

  delete(name: string): void {
    const known = this.#queueOf.get(name);
    if (known === undefined) return;
    this.#queueOf.delete(name);
    const group = known.queue.get(known.key);
    group?.delete(name);
    if (group?.size === 0) known.queue.delete(known.key);
  }

  /**
   * Takes a group out for one of so many workers; an empty list: there is nothing. The namespaces take turns. Deletions
   * have nothing to read in common: their groups get smaller towards the end, so that all workers end at about the same
   * time.
   */
  take(workerCount: number): readonly Due[] {
    const queue = this.#first.size > 0 ? this.#first : this.#again;
    for (const [key, group] of queue) {
      const share = Math.ceil(group.size / (2 * workerCount));
      const count = key === DELETIONS ? Math.min(share, GROUP_MAX) : GROUP_MAX;
      const taken = [...group.values()].slice(0, count);
      for (const { object } of taken) this.delete(object.metadata.name);
      if (queue.delete(key)) queue.set(key, group);
      return taken;
    }
    return [];
  }
}
