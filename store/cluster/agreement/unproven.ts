import type { IPAllocation } from "../../../kube/objects.ts";
import type { Ledger } from "../../journal/ledger.ts";
import type { PendingRow, ReleasedRow } from "../../journal/rows.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";
import { newestOf } from "./written-last.ts";

/*
 * What the journal keeps about whether the API server has what this node wrote, for a restart in between.
 *
 *   gap          the youngest row before contact was lost: what was written after a restore proves nothing about it
 *   comparing    the server has not what was written last, and not everything has been compared since
 *   recovering   … and what the server has of this node was not listed since: a restore brings back what had ended
 *
 * And of what is gone, the last release with no gap before it, and those since.
 */
type Unproven = "comparing" | "recovering";
const GAP = "gap";

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
  if (isUnproven(ledger, "comparing")) ledger.sql.doubtReleased.run(lastBeforeGap(ledger));
  markProven(ledger, "comparing");
}

/** With so many releases since a gap began everything is compared: that costs no more. */
export const SINCE_MAX = 20;

/** A release was written. Since a gap all of them count: a restore may have come between any two. */
export function noteReleased(ledger: Ledger, row: PendingRow, { spec, metadata }: IPAllocation): void {
  const { sql, ids } = ledger;
  const version = Math.max(1, newestOf([metadata.resourceVersion]));
  const { before, since } = releases(ledger);
  const isInGap = lastBeforeGap(ledger) < Number.MAX_SAFE_INTEGER;
  if (isInGap ? since.length === SINCE_MAX : version <= (before?.version ?? 1)) return;
  const id = ids.next();
  if (!isInGap) sql.forgetReleasedBefore.run(id);
  const ips = JSON.stringify([{ address: spec.address }]);
  sql.insertReleased.run(id, row.network_id, row.container_id, row.interface, ips, version);
}

/** The releases that no later write than that of a version proves; null: too many. */
export function releasesAfter(ledger: Ledger, version: number): readonly ReleasedRow[] | null {
  const { before, since } = releases(ledger);
  if (since.length === SINCE_MAX) return null;
  return before !== undefined && before.version > version ? [before, ...since] : since;
}

/** `before`: the last one that was written with no gap before it. */
function releases(ledger: Ledger) {
  const lastId = lastBeforeGap(ledger);
  const rows = ledger.sql.released.all();
  return { before: rows.find(({ id }) => id <= lastId), since: rows.filter(({ id }) => id > lastId) };
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
        if (!sql.meta.get(GAP)?.value) sql.putMeta.run(GAP, String(sql.lastUse.get()?.id ?? 0));
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
      sql.forgetReleasedBefore.run(sql.released.all().at(-1)?.id ?? 0);
    });
    // The next gap may have begun meanwhile, and its note may fail.
    if (begun === this.#begun) this.isUnnoted = false;
  }
}

/** Id of the youngest row that was certainly there before a gap; that of all of them where there is none. */
export function lastBeforeGap({ sql }: Ledger): number {
  const text = sql.meta.get(GAP)?.value;
  return text ? Number(text) : Number.MAX_SAFE_INTEGER;
}
