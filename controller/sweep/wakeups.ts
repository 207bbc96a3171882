const SECOND_MS = 1_000;

/** When to look at names again, in whole seconds of a monotonic clock: up to a second after the instant asked for. */
export class Wakeups {
  readonly #bySecond = new Map<number, Set<string>>();

  add(name: string, atMs: number): void {
    const second = Math.ceil(atMs / SECOND_MS);
    const known = this.#bySecond.get(second);
    if (known === undefined) this.#bySecond.set(second, new Set([name]));
    else known.add(name);
  }

  /** The next instant, ms; Infinity: there is none. */
  get nextMs(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const second of this.#bySecond.keys()) next = Math.min(next, second);
    return next * SECOND_MS;
  }

  /** Names whose instant has come; they are not returned again. */
  take(nowMs: number): string[] {
    const taken: string[] = [];
    for (const [second, names] of this.#bySecond) {
      if (second * SECOND_MS > nowMs) continue;
      this.#bySecond.delete(second);
      for (const name of names) taken.push(name);
    }
    return taken;
  }
}
