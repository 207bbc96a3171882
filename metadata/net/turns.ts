/** Runs work one at a time; what is asked for while one waits is part of that. */
export class Turns {
  readonly #work: (again: boolean) => Promise<void>;
  #last: Promise<void> = Promise.resolve();
  /** What waits for its turn; null: nothing does. */
  #next: { promise: Promise<void>; again: boolean } | null = null;

  constructor(work: (again: boolean) => Promise<void>) {
    this.#work = work;
  }

  /** Resolves when no work is under way. */
  get idle(): Promise<void> {
    return this.#last;
  }

  /** Rejects with what the work throws. */
  take(again: boolean): Promise<void> {
    if (this.#next !== null) {
      this.#next.again ||= again;
      return this.#next.promise;
    }
    const next = { again, promise: Promise.resolve() };
    this.#next = next;
    next.promise = this.#last.then(() => {
      this.#next = null;
      return this.#work(next.again);
    });
    this.#last = next.promise.catch(() => {});
    return next.promise;
  }
}
