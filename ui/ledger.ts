import type { NetworkWithClaims } from "../admin/admin-api.ts";
import type { Following, Problem } from "../admin/following.ts";
import type { AllocationView } from "../store/records.ts";
import { rowOf } from "./wire.ts";

/** An allocation that is there, as JSON of its row; null: it is gone. */
type Change = readonly [key: string, row: string | null];

export interface LedgerListener {
  changed(changes: readonly Change[]): void;
  networks(json: string): void;
  synced(rows: number): void;
  source(problem: Problem | null): void;
  /** Nothing has happened for a while. */
  alive(): void;
}

/** The key of an allocation, of which the page needs no more once it is gone. */
function keyOf(network: string, address: string): string {
  return JSON.stringify([network, address]);
}

/** Everything that the source has, as the page receives it: texts, of which 100,000 take 30 MB. */
export class Ledger implements Following {
  readonly #rows = new Map<string, string>();
  readonly #listeners = new Set<LedgerListener>();
  #changes = new Map<string, string | null>();
  #networks = "[]";
  #isSynced = false;
  #problem: Problem | null = null;

  /** What comes from now on; `rows` is what there is. Returns how to end it. */
  listen(listener: LedgerListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get rows(): ReadonlyMap<string, string> {
    return this.#rows;
  }

  get networksJson(): string {
    return this.#networks;
  }

  get isSynced(): boolean {
    return this.#isSynced;
  }

  get sourceProblem(): Problem | null {
    return this.#problem;
  }

  networks(items: readonly NetworkWithClaims[]): void {
    const json = JSON.stringify(items);
    if (json === this.#networks) return;
    this.#networks = json;
    for (const one of this.#listeners) one.networks(json);
  }

  upsert(view: AllocationView): void {
    const key = keyOf(view.network, view.address);
    const row = JSON.stringify(rowOf(view));
    if (this.#rows.get(key) === row) return;
    this.#rows.set(key, row);
    this.#changes.set(key, row);
  }

  gone(network: string, address: string): void {
    const key = keyOf(network, address);
    if (this.#rows.delete(key)) this.#changes.set(key, null);
  }

  synced(): void {
    this.flush();
    this.#isSynced = true;
    for (const one of this.#listeners) one.synced(this.#rows.size);
  }

  problem(problem: Problem | null): void {
    if (JSON.stringify(problem) === JSON.stringify(this.#problem)) return;
    this.#problem = problem;
    for (const one of this.#listeners) one.source(problem);
  }

  alive(): void {
    for (const one of this.#listeners) one.alive();
  }

  /** Hands on what has changed since it was last called. */
  flush(): void {
    if (this.#changes.size === 0) return;
    const changes = [...this.#changes];
    this.#changes = new Map();
    for (const one of this.#listeners) one.changed(changes);
  }
}
