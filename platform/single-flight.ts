/** Work that concurrent callers share; a caller that arrives after its end starts it again. */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>();
  readonly #next = new Map<string, Promise<T>>();

  /** What is under way for this key; undefined: nothing is. */
  underWay(key = ""): Promise<T> | undefined {
    return this.#flights.get(key);
  }

  /** The work under way for the key, or else `work`, started now. All callers get its failure, and none is cached. */
  run(work: () => Promise<T>, key = ""): Promise<T> {
    return this.#flights.get(key) ?? this.renew(work, key);
  }

  /**
   * Begins after the call, when the run under way has ended: no result is older than its question. Shared until then.
   */
  next(work: () => Promise<T>, key = ""): Promise<T> {
    const waiting = this.#next.get(key);
    if (waiting !== undefined) return waiting;
    const begin = () => {
      this.#next.delete(key);
      return this.renew(work, key);
    };
    const next = Promise.resolve(this.#flights.get(key)).then(begin, begin);
    this.#next.set(key, next);
    return next;
  }

  /** Starts the work now; later callers share this run and not an earlier one. */
  renew(work: () => Promise<T>, key = ""): Promise<T> {
    const flight = work().finally(() => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    this.#flights.set(key, flight);
    return flight;
  }

  /** Later callers do not share the run under way. */
  forget(key = ""): void {
    this.#flights.delete(key);
  }
}

/** Work that comes one after the other, whatever became of the one before. */
export class InTurn {
  #turn: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}
