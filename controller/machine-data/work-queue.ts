/** What is settled one object after the other, in the order in which one kind's work leads to the next's. */
export const STAGES = ["machines", "claims", "datas"] as const;
export type Stage = (typeof STAGES)[number];

type KeysByStage = Readonly<Record<Stage, Set<string>>>;

/** Keys (`namespace/name`) of objects to look at: those that changed, and those that wait for something. */
export class WorkQueue {
  readonly #dirty = emptyKeys();
  readonly #unsettled = emptyKeys();
  readonly #onMark: () => void;

  constructor(onMark: () => void) {
    this.#onMark = onMark;
  }

  /** Something that the object depends on has changed. */
  mark(stage: Stage, key: string): void {
    this.#dirty[stage].add(key);
    this.#onMark();
  }

  /** Objects that wait are looked at again. */
  retry(): void {
    for (const stage of STAGES) {
      for (const key of this.#unsettled[stage]) this.#dirty[stage].add(key);
      this.#unsettled[stage].clear();
    }
  }

  /** The keys to look at now; they are not dirty any more. */
  take(stage: Stage): string[] {
    const keys = [...this.#dirty[stage]];
    this.#dirty[stage].clear();
    return keys;
  }

  /** The object waits for something: it is looked at again in the next pass. */
  wait(stage: Stage, key: string): void {
    this.#unsettled[stage].add(key);
  }

  get isEmpty(): boolean {
    return STAGES.every((stage) => this.#dirty[stage].size === 0);
  }

  get hasWaiting(): boolean {
    return STAGES.some((stage) => this.#unsettled[stage].size > 0);
  }
}

function emptyKeys(): KeysByStage {
  return { machines: new Set(), claims: new Set(), datas: new Set() };
}
