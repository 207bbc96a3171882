/** Lets one at a time through for each key, in order of arrival. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<void>>();

  /** Resolves when it is this caller's turn; what it resolves with must be called to let the next one through. */
  async enter(key: string): Promise<() => void> {
    const before = this.#last.get(key);
    let leave: () => void = () => {};
    const mine = new Promise<void>((resolve) => {
      leave = resolve;
    });
    this.#last.set(key, mine);
    await before;
    return () => {
      if (this.#last.get(key) === mine) this.#last.delete(key);
      leave();
    };
  }
}
