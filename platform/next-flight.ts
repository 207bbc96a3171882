/**
 * Work that callers share which come while an earlier run is under way: it begins when that one has ended, so that no
 * result is older than its question. Unlike SingleFlight, where later callers share what began before them.
 */
export class NextFlight {
  readonly #underWay = new Map<string, Promise<unknown>>();
  readonly #next = new Map<string, Promise<unknown>>();

  /** Callers with one key share the work of the first of them that waits. They get its failure, and none is kept. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const waiting = this.#next.get(key);
    if (waiting !== undefined) return waiting as Promise<T>;
    const before = this.#underWay.get(key);
    if (before === undefined) return this.#begin(key, work);
    const next = before
      .catch(() => {})
      .then(() => {
        this.#next.delete(key);
        return this.#begin(key, work);
      });
    this.#next.set(key, next);
    return next;
  }

  #begin<T>(key: string, work: () => Promise<T>): Promise<T> {
    const run = work().finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, run);
    return run;
  }
}
