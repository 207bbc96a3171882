/** A fault put into the product: one text of one file is replaced by another when the bundle of the simulation is made. */
export interface Mutant {
  /** Of the repository. */
  readonly file: string;
  /** Is there exactly once. */
  readonly find: string;
  readonly replace: string;
  /** What is wrong with it. */
  readonly why: string;
  /** A seed that shows it, and after how many steps at most; null: no history shows it, and `why` says what else does. */
  readonly found: FoundBy | null;
}

export interface FoundBy {
  readonly seed: number;
  readonly steps: number;
  /** What the oracle calls it. */
  readonly kind: string;
}

export type Mutants = Readonly<Record<string, Mutant>>;
