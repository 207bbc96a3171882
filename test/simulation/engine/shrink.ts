import type { Action } from "../world.ts";
import type { Parts } from "./parts.ts";
import { type Outcome, type RunOptions, run } from "./run.ts";

/** After the moment at which it failed: with less trouble the same comes a little later. */
const TAIL_MARGIN_MS = 10_000;

/** What of a history is left out until only what makes it fail is there. */
export interface History {
  readonly nodes: number;
  readonly actions: readonly Action[];
  /** null: as the seed says. */
  readonly faults: readonly string[] | null;
  readonly tailMs: number;
}

export interface ShrinkOptions {
  readonly parts: Parts;
  readonly seed: number;
  readonly isTimeUp: () => boolean;
  /** Is told how far it is. */
  readonly progress: (text: string) => void;
}

export interface Shrunk {
  readonly history: History;
  readonly outcome: Outcome;
}

/**
 * The history of a run, so that it can be told again. What ended in peace is at its end then, and what failed may fail
 * later.
 */
export function historyOf(nodes: number, { actions, faults, tailMs, violation }: Outcome): History {
  return { nodes, actions, faults, tailMs: Math.ceil(tailMs) + (violation === null ? 0 : TAIL_MARGIN_MS) };
}

/** How many steps a history may take that is much the same. */
export function stepsMaxOf({ steps }: Outcome): number {
  return Math.ceil(steps * 1.2) + 1_000;
}

/** Tells a history again. */
export function replay(parts: Parts, seed: number, history: History, steps: number, more: Partial<RunOptions>) {
  return run(parts, { seed, steps, ...history, ...more });
}

/**
 * Leaves out actions and mishaps, as many as can be with the same kind of violation at the end. null: the history does
 * not fail when it is told again, so that chance that the seed does not decide must be in it.
 */
export async function shrink(failed: Outcome, nodes: number, options: ShrinkOptions): Promise<Shrunk | null> {
  const shrinker = new Shrinker(failed, options);
  return shrinker.shrink(historyOf(nodes, failed));
}

class Shrinker {
  readonly #options: ShrinkOptions;
  readonly #kind: string;
  readonly #stepsMax: number;
  #best: Shrunk | null = null;
  #runs = 0;

  constructor(failed: Outcome, options: ShrinkOptions) {
    this.#options = options;
    this.#kind = failed.violation?.kind ?? "";
    this.#stepsMax = stepsMaxOf(failed);
  }

  async shrink(history: History): Promise<Shrunk | null> {
    if (!(await this.#fails(history))) return null;
    await this.#fails({ ...this.#now, faults: [] });
    for (;;) {
      const before = sizeOf(this.#now);
      await this.#leaveOut(this.#now.actions, (actions) => this.#failsSomehow({ ...this.#now, actions }));
      await this.#leaveOut(this.#now.faults ?? [], (faults) => this.#fails({ ...this.#now, faults }));
      await this.#leaveOutKeepingTimes();
      await this.#fewerNodes();
      if (sizeOf(this.#now) >= before || this.#options.isTimeUp()) return this.#best;
    }
  }

  get #now(): History {
    return (this.#best as Shrunk).history;
  }

  /** Parts of a list, large ones first. */
  async #leaveOut<T>(list: readonly T[], fails: (list: readonly T[]) => Promise<boolean>): Promise<void> {
    let left = list;
    for (let size = Math.ceil(left.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let start = 0; start < left.length; ) {
        if (this.#options.isTimeUp()) return;
        const fewer = [...left.slice(0, start), ...left.slice(start + size)];
        if (await fails(fewer)) left = fewer;
        else start += size;
      }
    }
  }

  /** An action is left out, and those after it come when they came. */
  async #leaveOutKeepingTimes(): Promise<void> {
    for (let place = 0; place < this.#now.actions.length && !this.#options.isTimeUp(); ) {
      const { actions } = this.#now;
      const next = actions[place + 1];
      const afterMs = (actions[place]?.afterMs ?? 0) + (next?.afterMs ?? 0);
      const later = next ? [{ ...next, afterMs }, ...actions.slice(place + 2)] : [];
      const fewer = [...actions.slice(0, place), ...later];
      if (!(await this.#failsSomehow({ ...this.#now, actions: fewer }))) place += 1;
    }
  }

  async #fewerNodes(): Promise<void> {
    while (this.#now.nodes > 1 && !this.#options.isTimeUp())
      if (!(await this.#failsSomehow({ ...this.#now, nodes: this.#now.nodes - 1 }))) return;
  }

  /**
   * With the mishaps that are left, or with those of the seed: most keys have a number in them (of messages on a link),
   * so that with an action less they are somebody else's.
   */
  async #failsSomehow(history: History): Promise<boolean> {
    return (await this.#fails(history)) || (!this.#options.isTimeUp() && this.#fails({ ...history, faults: null }));
  }

  /** Whether it fails in the same way; if so, only what of it was needed to come there is kept. */
  async #fails(history: History): Promise<boolean> {
    const { parts, seed, progress } = this.#options;
    this.#runs += 1;
    const outcome = await replay(parts, seed, history, this.#stepsMax, {});
    if (outcome.violation?.kind !== this.#kind) return false;
    this.#best = { history: historyOf(history.nodes, outcome), outcome };
    progress(`run ${this.#runs}: ${sizeText(this.#now)}, ${outcome.steps} steps`);
    return true;
  }
}

function sizeOf({ nodes, actions, faults }: History): number {
  return nodes + actions.length + (faults?.length ?? 0);
}

function sizeText({ nodes, actions, faults }: History): string {
  return `${nodes} nodes, ${actions.length} actions, ${faults?.length} mishaps`;
}
