/** One text of one file is replaced by another when the bundle of the simulation is made. */
interface Edit {
  /** Of the repository. */
  readonly file: string;
  /** Is there exactly once. */
  readonly find: string;
  readonly replace: string;
}

/** A fault put into the product. */
interface Mutant extends Edit {
  /** Where what was mended in several places is put back in all of them. */
  readonly also?: readonly Edit[];
  /** What is wrong with it. */
  readonly why: string;
  /** Why no history of the simulation shows it, and the test that does; absent: found.json has a seed that does. */
  readonly elsewhere?: string;
}

export type Mutants = Readonly<Record<string, Mutant>>;

/** Of all its places. */
export function editsOf({ file, find, replace, also = [] }: Mutant): Edit[] {
  return [{ file, find, replace }, ...also];
}
