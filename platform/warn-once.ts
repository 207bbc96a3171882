import { BoundedMap } from "./bounded-map.ts";
import type { Log } from "./log.ts";

/** Different things remembered; beyond it the oldest is forgotten and may be said again. */
const REMEMBERED_MAX = 1_000;

/** What was said already. */
export class SaidOnce {
  readonly #said = new BoundedMap<string, true>(REMEMBERED_MAX);

  /** Whether nobody has heard of it; from now on somebody has. */
  isNews(key: string): boolean {
    const isNews = !this.#said.has(key);
    if (isNews) this.#said.set(key, true);
    return isNews;
  }

  /** It is over: the next time it is news again. */
  forget(key: string): void {
    this.#said.delete(key);
  }
}

/** Things an operator should know once, not at every ADD. */
export class WarnOnce {
  readonly #log: Log;
  readonly #said = new SaidOnce();

  constructor(log: Log) {
    this.#log = log;
  }

  warn(network: string, message: string): void {
    if (this.#said.isNews(`${network} ${message}`)) this.#log.warn({ network }, message);
  }
}
