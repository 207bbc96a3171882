/** Work in one turn of the event loop, ms: an ADD that waits beside a list of thousands of objects must not feel it. */
const TURN_MS_MAX = 8;

/** Keeps a long piece of work from holding the event loop. */
export class Breather {
  #sinceMs = performance.now();

  /** Whether it is time for `breathe`. Asked first, because awaiting at every step costs more than the steps. */
  get due(): boolean {
    return performance.now() - this.#sinceMs > TURN_MS_MAX;
  }

  /** Lets everybody else have a turn. */
  async breathe(): Promise<void> {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.#sinceMs = performance.now();
  }
}
