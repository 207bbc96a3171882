export interface Finding {
  /** I1 to I5, or `database`, `spool`, `private`, `network`, `mac`, `metadata`, `admission`. */
  readonly invariant: string;
  readonly message: string;
  readonly hint: string;
  /** Why no ADD is served now, if this finding is the reason. Not shown to operators. */
  readonly whyNotReady?: string;
}
