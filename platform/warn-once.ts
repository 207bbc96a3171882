import { BoundedMap } from "./bounded-map.ts";
import type { Log } from "./log.ts";

/** Keys remembered; beyond that the oldest is forgotten, and counts as new again. */
const REMEMBERED_MAX = 1_000;

export class RecentKeys {
  readonly #keys = new BoundedMap<string, true>(REMEMBERED_MAX);

  addIfNew(key: string): boolean {
    const isNew = !this.#keys.has(key);
    if (isNew) this.#keys.set(key, true);
    return isNew;
  }

  forget(key: string): void {
    this.#keys.delete(key);
  }
}

export class WarnOnce {
  readonly #log: Log;
  readonly #warned = new RecentKeys();

  constructor(log: Log) {
    this.#log = log;
  }

  warn(network: string, message: string): void {
    if (this.#warned.addIfNew(`${network} ${message}`)) this.#log.warn({ network }, message);
  }
}
