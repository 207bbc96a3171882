/** Work that is done once for everybody who asks while it is under way; whoever comes later begins anew. */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>();

  /** What is under way for this key; undefined: nothing is. */
  underWay(key = ""): Promise<T> | undefined {
    return this.#flights.get(key);
  }

  /** What is under way for the key, or else `work`, which begins now. Failures are everybody's too, and none is remembered. */
  run(work: () => Promise<T>, key = ""): Promise<T> {
    return this.#flights.get(key) ?? this.renew(work, key);
  }

  /** Begins now, whatever is under way: from here on that is not what others are given. */
  renew(work: () => Promise<T>, key = ""): Promise<T> {
    const flight = work().finally(() => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    this.#flights.set(key, flight);
    return flight;
  }

  /** Whoever asks from now on is not given what is under way. */
  forget(key = ""): void {
    this.#flights.delete(key);
  }
}
