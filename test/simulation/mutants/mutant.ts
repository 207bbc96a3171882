/** A fault put into the product: one text of one file is replaced by another when the bundle of the simulation is made. */
interface Mutant {
  /** Of the repository. */
  readonly file: string;
  /** Is there exactly once. */
  readonly find: string;
  readonly replace: string;
  /** What is wrong with it. */
  readonly why: string;
  /** Why no history of the simulation shows it, and the test that does; absent: found.json has a seed that does. */
  readonly elsewhere?: string;
}

export type Mutants = Readonly<Record<string, Mutant>>;
