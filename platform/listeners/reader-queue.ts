import type { ServerResponse } from "node:http";
import { SingleFlight } from "../single-flight.ts";
import { type Clock, sleep } from "../time.ts";

/** Answers of some MB that their readers have not taken yet. */
const UNSENT_MAX = 4;
/** How long other readers wait for one who does not read, ms. */
const UNSENT_MS_MAX = 2_000;
/** After any question, ms: taking it from its connection costs as much as a short answer, and is not measured. */
const PAUSE_MS_MIN = 1;
/** A third of the time is for readers: an ADD waits for a slice of their work now and then. */
export const PAUSE_PER_WORK = 2;
/** Longer work pauses by itself, ms. */
const PAUSE_MS_MAX = 50;
/** Items written as JSON in one turn. */
const ITEMS_IN_A_TURN = 64;

/** After work that can wait, begun at `sinceMs`: others get twice the time that it took. */
export function pauseAfter(clock: Clock, sinceMs: number): Promise<void> {
  const pauseMs = PAUSE_PER_WORK * (clock.monotonicMs() - sinceMs);
  return sleep(clock, Math.min(Math.max(pauseMs, PAUSE_MS_MIN), PAUSE_MS_MAX));
}

interface Question {
  readonly response: ServerResponse;
  answer(): Promise<void>;
}

/**
 * Answers questions one at a time, with pauses: together they get a third of the process' time at most, however many
 * ask. What may wait for an API server is asked beside the queue (`runElsewhere`), with pauses of its own
 * (docs/decisions/0084). A reader who does not take his answer is cut off when others wait.
 */
export class ReaderQueue {
  readonly #clock: Clock;
  readonly #waiting: Question[] = [];
  /** Since when each is computed, ms. */
  readonly #unsent = new Map<ServerResponse, number>();
  readonly #elsewhere = new SingleFlight<object>();
  #isRunning = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The answer as JSON, in its turn. Rejects as `work` does. */
  run(response: ServerResponse, work: () => Promise<object>): Promise<string> {
    return new Promise((resolve, reject) => {
      const answer = () =>
        work()
          .then((body) => this.#json(body))
          .then(resolve, reject);
      this.#waiting.push({ response, answer });
      if (!this.#isRunning) void this.#runAll();
    });
  }

  /**
   * For a question that may wait for an API server: it takes its turn with its answer, and nobody waits behind it.
   * Whoever asks the same meanwhile shares the answer: many do not compute it side by side.
   */
  async runElsewhere(response: ServerResponse, question: string, work: () => Promise<object>): Promise<string> {
    const answer = this.#elsewhere.next(work, question);
    // A refusal takes its turn as any answer.
    await answer.catch(() => {});
    return this.run(response, () => answer);
  }

  async #runAll(): Promise<void> {
    this.#isRunning = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      // Nobody hears of it any more.
      if (next.response.destroyed) continue;
      while (this.#unsent.size >= UNSENT_MAX && !this.#cutOff()) await sleep(this.#clock, 1);
      if (next.response.destroyed) continue;
      const sinceMs = this.#clock.monotonicMs();
      this.#countUnsent(next.response, sinceMs);
      await next.answer();
      // Also when nobody waits: of requests that arrive in one turn each is read when the one before is answered.
      await pauseAfter(this.#clock, sinceMs);
    }
    this.#isRunning = false;
  }

  #countUnsent(response: ServerResponse, sinceMs: number): void {
    this.#unsent.set(response, sinceMs);
    const sent = () => void this.#unsent.delete(response);
    response.once("finish", sent);
    response.once("close", sent);
  }

  /** Whether one who does not read has made room. */
  #cutOff(): boolean {
    for (const [response, sinceMs] of this.#unsent) {
      if (this.#clock.monotonicMs() - sinceMs < UNSENT_MS_MAX) return false;
      this.#unsent.delete(response);
      response.destroy();
      return true;
    }
    return false;
  }

  /** As JSON.stringify, which takes as long as a hundred ADDs for thousands of items. */
  async #json(body: object): Promise<string> {
    const members: string[] = [];
    for (const [name, value] of Object.entries(body)) {
      if (value === undefined) continue;
      const text = Array.isArray(value) ? `[${await this.#items(value)}]` : JSON.stringify(value);
      members.push(`${JSON.stringify(name)}:${text}`);
    }
    return `{${members.join(",")}}`;
  }

  async #items(items: readonly unknown[]): Promise<string> {
    const texts: string[] = [];
    for (let from = 0; from < items.length; from += ITEMS_IN_A_TURN) {
      const sinceMs = this.#clock.monotonicMs();
      for (const item of items.slice(from, from + ITEMS_IN_A_TURN)) texts.push(JSON.stringify(item) ?? "null");
      if (from + ITEMS_IN_A_TURN < items.length) await pauseAfter(this.#clock, sinceMs);
    }
    return texts.join(",");
  }
}
