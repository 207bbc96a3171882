import type { NetworkWithClaims } from "../admin/admin-api.ts";
import type { Following, Problem } from "../admin/following.ts";
import type { AllocationView } from "../allocations/records.ts";
import { type Clock, isoTime } from "../platform/time.ts";
import { rowOf, type StaleSince } from "./wire.ts";

/** The last row of an allocation, and whether the allocation is still there. */
export interface Change {
  readonly row: string;
  readonly isThere: boolean;
}

export interface LedgerListener {
  changed(changes: readonly Change[]): void;
  networks(json: string): void;
  synced(rows: number): void;
  source(problem: StaleSince | null): void;
  /** Nothing has happened for a while. */
  alive(): void;
}

/** Everything that the source has, as the page receives it: texts, of which 100,000 take 30 MB. */
export class Ledger implements Following {
  readonly #rows = new Map<string, string>();
  readonly #listeners = new Set<LedgerListener>();
  #changes = new Map<string, Change>();
  #networks = "[]";
  #isSynced = false;
  #problem: StaleSince | null = null;
  readonly #clock: Clock;
  /** When the source answered last, ms of the wall clock. */
  #heardMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#heardMs = clock.wallMs();
  }

  /** What comes from now on; `rows` is what there is. Returns how to end it. */
  listen(listener: LedgerListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get rows(): Iterable<string> {
    return this.#rows.values();
  }

  get size(): number {
    return this.#rows.size;
  }

  get networksJson(): string {
    return this.#networks;
  }

  get isSynced(): boolean {
    return this.#isSynced;
  }

  get sourceProblem(): StaleSince | null {
    return this.#problem;
  }

  networks(items: readonly NetworkWithClaims[]): void {
    const json = JSON.stringify(items);
    if (json === this.#networks) return;
    this.#networks = json;
    for (const one of this.#listeners) one.networks(json);
  }

  rowOf(view: AllocationView): string {
    return JSON.stringify(rowOf(view));
  }

  upsert(name: string, row: string): void {
    if (this.#rows.get(name) === row) return;
    this.#rows.set(name, row);
    // Whoever comes before all is known is sent all in the end.
    if (this.#listeners.size > 0) this.#changes.set(name, { row, isThere: true });
  }

  gone(name: string): void {
    const row = this.#rows.get(name);
    if (row === undefined) return;
    this.#rows.delete(name);
    if (this.#listeners.size > 0) this.#changes.set(name, { row, isThere: false });
  }

  /** Readers hear of it once: from then on rows are news. */
  synced(): void {
    if (this.#isSynced) return;
    this.flush();
    this.#isSynced = true;
    for (const one of this.#listeners) one.synced(this.size);
  }

  problem(problem: Problem | null): void {
    if (problem === null) this.#heardMs = this.#clock.wallMs();
    const { message = null } = problem ?? {};
    if (message === (this.#problem?.message ?? null)) return;
    this.#problem = problem === null ? null : { ...problem, since: isoTime(this.#heardMs) };
    for (const one of this.#listeners) one.source(this.#problem);
  }

  alive(): void {
    for (const one of this.#listeners) one.alive();
  }

  flush(): void {
    if (this.#changes.size === 0) return;
    const changes = [...this.#changes.values()];
    this.#changes = new Map();
    for (const one of this.#listeners) one.changed(changes);
  }
}
