import type { AllocationView } from "../allocations/records.ts";
import type { NetworkWithClaims } from "./admin-api.ts";

export interface Problem {
  readonly message: string;
  readonly hint: string;
}

/** Receives everything that a daemon or a cluster has, then what changes. */
export interface Following {
  networks(items: readonly NetworkWithClaims[]): void;
  /** What is kept of an allocation: a text, of which 100,000 take little memory. */
  rowOf(view: AllocationView): string;
  /** A new or changed allocation, by a name of its own; perhaps one that was reported before. */
  upsert(name: string, row: string): void;
  gone(name: string): void;
  /** Everything that is there has been reported once; called again after later complete reports. */
  synced(): void;
  /** The source does not answer; null: it does again. */
  problem(problem: Problem | null): void;
}
