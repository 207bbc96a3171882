import type { Clock } from "../../platform/time.ts";

/** What is settled one object after the other, in the order in which one kind's work leads to the next's. */
export const STAGES = ["machines", "vms", "claims", "datas"] as const;
export type Stage = (typeof STAGES)[number];

/** What an object waits for is told after this time, ms: most wait only for what is about to be written. */
const PATIENCE_MS = 3_000;

export interface WorkQueueOptions {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly onMark: () => void;
}

/** Keys (`namespace/name`) of objects to look at: those that changed, and those that wait for something. */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #dirty: Readonly<Record<Stage, Set<string>>>;
  /** Since when each has waited, ms. */
  readonly #waiting: Readonly<Record<Stage, Map<string, number>>>;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    this.#dirty = { machines: new Set(), vms: new Set(), claims: new Set(), datas: new Set() };
    this.#waiting = { machines: new Map(), vms: new Map(), claims: new Map(), datas: new Map() };
  }

  mark(stage: Stage, key: string): void {
    this.#dirty[stage].add(key);
    this.#options.onMark();
  }

  retry(): void {
    for (const stage of STAGES) for (const key of this.#waiting[stage].keys()) this.#dirty[stage].add(key);
  }

  take(stage: Stage): string[] {
    const keys = [...this.#dirty[stage]];
    this.#dirty[stage].clear();
    return keys;
  }

  settled(stage: Stage, key: string): void {
    this.#waiting[stage].delete(key);
  }

  /** The object waits for something: it is looked at again in the next pass. */
  wait(stage: Stage, key: string): void {
    if (!this.#waiting[stage].has(key)) this.#waiting[stage].set(key, this.#options.clock.monotonicMs());
  }

  /** Whether it has waited so long that it should say what for. */
  hasWaited(stage: Stage, key: string): boolean {
    const sinceMs = this.#waiting[stage].get(key);
    return sinceMs !== undefined && this.#options.clock.monotonicMs() - sinceMs >= PATIENCE_MS;
  }

  /** Whether anything waits, or is left to look at. */
  get isWaiting(): boolean {
    return !this.isEmpty || STAGES.some((stage) => this.#waiting[stage].size > 0);
  }

  get isEmpty(): boolean {
    return STAGES.every((stage) => this.#dirty[stage].size === 0);
  }
}
