import type { Log } from "./log.ts";

/** Different warnings remembered; beyond it they are forgotten and may be said again. */
const REMEMBERED_MAX = 1_000;

/** Things an operator should know once, not at every ADD. */
export class WarnOnce {
  readonly #log: Log;
  readonly #said = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  warn(network: string, message: string): void {
    const key = `${network} ${message}`;
    if (this.#said.has(key)) return;
    if (this.#said.size >= REMEMBERED_MAX) this.#said.clear();
    this.#said.add(key);
    this.#log.warn({ network }, message);
  }
}
