import type { Action } from "../world.ts";

/** A history that failed once, as it is kept in found/. */
export interface Found {
  /** Why it is kept: what was wrong. */
  readonly why: string;
  readonly seed: number;
  readonly nodes: number;
  readonly steps: number;
  /** null: those that the seed generates. */
  readonly actions: readonly Action[] | null;
  readonly tailMs?: number;
  /** Keys of what goes wrong; null: as the seed says. */
  readonly faults: readonly string[] | null;
  /** Which violation it ended in; of a mutant, or before the mend. */
  readonly violation: string;
  readonly mutant: string | null;
}

/** Throws an Error when the text is none. */
export function readFound(text: string): Found {
  const found = JSON.parse(text) as Found;
  if (typeof found.seed !== "number" || typeof found.nodes !== "number")
    throw new Error("a history has a seed and a number of nodes");
  return found;
}
