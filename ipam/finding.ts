export interface Finding {
  /** I1 to I5, or `database`, `spool`, `network`, `boot`, `metadata`. */
  readonly invariant: string;
  readonly message: string;
  readonly hint: string;
  /** Why no ADD is served now, where this is the finding that names it. Not shown. */
  readonly whyNotReady?: string;
}
