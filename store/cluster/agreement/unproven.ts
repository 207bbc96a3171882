import type { Ledger } from "../../journal/ledger.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";

/*
 * What the journal keeps about whether the API server has what this node wrote, for a restart in between.
 *
 *   gap          the last attachment before contact was lost: what was written after a restore proves nothing about it
 *   comparing    the server has not what was written last, and not everything has been compared since
 *   recovering   … and what the server has of this node was not listed since: a restore brings back what had ended
 *   released     the last release with no gap before it, and those since: no other trace of a restore to before one
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
 * Everything was compared. If that had to be, because of a restore, the versions of before it say nothing any more of
 * what came first: what was released since counts whatever its number, and what the server has again is listed next.
 */
export function markCompared(ledger: Ledger): void {
  const { before, since } = readReleases(ledger);
  if (before !== null && isUnproven(ledger, "comparing"))
    writeReleases(ledger, { before: { ...before, version: 0 }, since });
  markProven(ledger, "comparing");
}

/**
 * A release that this node has written: the IPAllocation, the key of the attachment that ended, and its
 * resourceVersion.
 */
export interface Release {
  readonly version: number;
  readonly name: string;
  readonly key: string;
}

interface Releases {
  /** The last one that was written with no gap before it. */
  readonly before: Release | null;
  /** Those since a gap began: a restore may have come between any two of them. */
  readonly since: readonly Release[];
}

/** With so many releases since a gap began everything is compared: that costs no more. */
const SINCE_MAX = 20;

export function noteReleased(ledger: Ledger, release: Release): void {
  const { before, since } = readReleases(ledger);
  if (!ledger.sql.meta.get(GAP)?.value) {
    if (release.version > (before?.version ?? -1)) writeReleases(ledger, { before: release, since });
  } else if (since.length < SINCE_MAX) writeReleases(ledger, { before, since: [...since, release] });
}

/** The releases that no later write than that of a version proves; null: too many. */
export function releasesAfter(ledger: Ledger, version: number): readonly Release[] | null {
  const { before, since } = readReleases(ledger);
  if (since.length === SINCE_MAX) return null;
  return before !== null && before.version > version ? [before, ...since] : since;
}

function readReleases({ sql }: Ledger): Releases {
  const text = sql.meta.get(RELEASED)?.value;
  return text ? JSON.parse(text) : { before: null, since: [] };
}

function writeReleases({ sql }: Ledger, releases: Releases): void {
  sql.putMeta.run(RELEASED, JSON.stringify(releases));
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

  /** Contact is lost, or was while no daemon ran. Resolves when that is noted, or cannot be. */
  async begin(): Promise<void> {
    this.isUnnoted = true;
    this.#begun += 1;
    if (this.#directory.status.kind !== "ready") return;
    await this.#directory
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
    await this.#directory.write((ledger) => {
      if (ledger.sql.meta.get(GAP)?.value) ledger.sql.putMeta.run(GAP, "");
      const { before, since } = readReleases(ledger);
      if (since.length > 0) writeReleases(ledger, { before: since.at(-1) ?? before, since: [] });
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
