import type { ServerResponse } from "node:http";
import { type Clock, sleep } from "../time.ts";

/** After each answer, ms: taking a request from its connection and giving the answer to it cost about a tenth of it. */
const PAUSE_MS = 1;

/** Short answers one at a time, with pauses, however many ask: what else the process does goes on in between. */
export class Turns {
  readonly #clock: Clock;
  readonly #waiting: { readonly response: ServerResponse; readonly begin: () => void }[] = [];
  #isRunning = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when it is the turn of this response; never, if nobody hears of it any more. */
  next(response: ServerResponse): Promise<void> {
    return new Promise((begin) => {
      this.#waiting.push({ response, begin });
      if (!this.#isRunning) void this.#runAll();
    });
  }

  async #runAll(): Promise<void> {
    this.#isRunning = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (next.response.destroyed) continue;
      next.begin();
      await sleep(this.#clock, PAUSE_MS);
    }
    this.#isRunning = false;
  }
}
