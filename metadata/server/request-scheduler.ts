import type { Clock } from "../../platform/time.ts";

/**
 * Requests begun in one turn of the event loop. In each turn Node reads every socket that has something and accepts one
 * new connection (libuv since 1.45): while many guests keep it busy a turn would last as long as all their answers
 * together, and the others, who boot at the same instant, would be let in one by one behind whole boots.
 */
const BEGUN_IN_A_TURN_MAX = 4;

/** Begins requests in the order in which they came, a few in each turn of the event loop. */
export class RequestScheduler {
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #begunCount = 0;
  #ends = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(work: () => void): void {
    if (this.#waiting.length > 0 || this.#begunCount >= BEGUN_IN_A_TURN_MAX) this.#waiting.push(work);
    else this.#run(work);
  }

  #run(work: () => void): void {
    this.#begunCount += 1;
    if (!this.#ends) this.#clock.immediate(() => this.#nextTurn());
    this.#ends = true;
    work();
  }

  #nextTurn(): void {
    this.#begunCount = 0;
    this.#ends = false;
    for (const work of this.#waiting.splice(0, BEGUN_IN_A_TURN_MAX)) this.#run(work);
  }
}
