import type { Ledger } from "../../journal/ledger.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";

/*
 * What the journal keeps about whether the API server has what this node wrote, for a restart in between.
 *
 *   gap          the last attachment before contact was lost: what was written after a restore proves nothing about it
 *   comparing    the server has not what was written last, and not everything has been compared since
 *   recovering   … and what the server has of this node was not listed since: a restore brings back what had ended
 *   released     the last release that was written with no gap before it: a restore to before it leaves no other trace
 */
type Unproven = "comparing" | "recovering";
const GAP = "gap";
const RELEASED = "released";

export function isUnproven({ sql }: Ledger, what: Unproven): boolean {
  return sql.meta.get(what)?.value === "1";
}

export function markUnproven({ sql }: Ledger): void {
  for (const what of ["comparing", "recovering"] as const) sql.putMeta.run(what, "1");
}

export function markProven({ sql }: Ledger, what: Unproven): void {
  sql.putMeta.run(what, "0");
}

/**
 * Everything was compared. If that had to be, because of a restore, the versions of before it say nothing any more of what came first: what was
 * released since counts whatever its number, and what the server has again is listed next.
 */
export function markCompared(ledger: Ledger): void {
  const released = lastReleased(ledger);
  if (released !== null && isUnproven(ledger, "comparing"))
    ledger.sql.putMeta.run(RELEASED, JSON.stringify({ ...released, version: 0 }));
  markProven(ledger, "comparing");
}

/** A release that this node has written: the IPAllocation, the key of the attachment that ended, and its resourceVersion. */
interface Release {
  readonly version: number;
  readonly name: string;
  readonly key: string;
}

/** What was written after a gap proves nothing about what was before it. */
export function noteReleased(ledger: Ledger, release: Release): void {
  const { sql } = ledger;
  if (sql.meta.get(GAP)?.value || release.version <= (lastReleased(ledger)?.version ?? 0)) return;
  sql.putMeta.run(RELEASED, JSON.stringify(release));
}

export function lastReleased({ sql }: Ledger): Release | null {
  const text = sql.meta.get(RELEASED)?.value;
  return text ? JSON.parse(text) : null;
}

/** The note of a gap in contact. The first one counts until it is over. */
export class GapNote {
  /** It could not be written down: then nothing is proof. */
  isUnnoted = false;
  readonly #directory: StateDirectory;
  /** Gaps that have begun. */
  #begun = 0;

  constructor(directory: StateDirectory) {
    this.#directory = directory;
  }

  /** Contact is lost. */
  begin(): void {
    this.isUnnoted = true;
    this.#begun += 1;
    if (this.#directory.status.kind !== "ready") return;
    this.#directory
      .write(({ sql }) => {
        if (!sql.meta.get(GAP)?.value) sql.putMeta.run(GAP, String(sql.lastAttachment.get()?.id ?? 0));
      })
      .then(
        () => {
          this.isUnnoted = false;
        },
        () => {},
      );
  }

  /** What this node holds was compared, and contact has not been lost since that began. */
  async end(): Promise<void> {
    const begun = this.#begun;
    await this.#directory.write(({ sql }) => {
      if (sql.meta.get(GAP)?.value) sql.putMeta.run(GAP, "");
    });
    // The next gap may have begun meanwhile, and its note may fail.
    if (begun === this.#begun) this.isUnnoted = false;
  }
}

/** Id of the last attachment that was certainly recorded before a gap; all of them where there is none. */
export function lastBeforeGap({ sql }: Ledger): number {
  const text = sql.meta.get(GAP)?.value;
  return text ? Number(text) : Number.MAX_SAFE_INTEGER;
}
