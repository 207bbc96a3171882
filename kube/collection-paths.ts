/** The paths of one collection in several versions, and the one that is served. */
export class CollectionPaths {
  readonly #paths: readonly [string, ...string[]];
  #index = 0;
  #served: string;
  /** Paths in a row that were not served. */
  #missing = 0;

  constructor(first: string, others: readonly string[] = []) {
    this.#paths = [first, ...others];
    this.#served = first;
  }

  /** The one of the last answer: what is known of the objects is in its version. Before any, the first one. */
  get lastServed(): string {
    return this.#served;
  }

  get current(): string {
    return this.#paths[this.#index] ?? this.#paths[0];
  }

  /** The current path is not served. Returns whether there is another one to be tried before waiting. */
  notServed(): boolean {
    this.#index = (this.#index + 1) % this.#paths.length;
    this.#missing = (this.#missing + 1) % this.#paths.length;
    return this.#missing > 0;
  }

  served(): void {
    this.#missing = 0;
    this.#served = this.current;
  }
}
