import Bottleneck from "bottleneck";
import type { Clock } from "../../platform/time.ts";
import { ApiAway, type Priority } from "../kube-api.ts";

/**
 * Writes at once. One takes the API server some 5 ms, so a healthy server has few of them at a time; a slow one never
 * has more than this from one client.
 */
const IN_FLIGHT_MAX = 32;
/** Of these at most for housekeeping: if its writes hang, ADDs and DELs still find a place. */
const HOUSEKEEPING_IN_FLIGHT_MAX = 8;

/** Priorities of Bottleneck: 0 is the most urgent. */
const TURNS: Readonly<Record<Priority, number>> = { add: 1, del: 4, housekeeping: 7 };

/**
 * The queue of writes, the urgent ones in front. It holds no timer, so it keeps no process alive.
 *
 * An ADD's write goes at once while there is room: Bottleneck takes 3.5 ms to start a job, as long as the write itself,
 * so half of the places are given without it and its queue is used only under load.
 * See docs/decisions/0013.
 */
export class WriteQueue {
  readonly #clock: Clock;
  readonly #atOnceMax: number;
  #atOnce = 0;
  readonly #all: Bottleneck;
  readonly #housekeeping: Bottleneck;

  constructor(clock: Clock, inFlightMax = IN_FLIGHT_MAX) {
    this.#clock = clock;
    this.#atOnceMax = Math.floor(inFlightMax / 2);
    const queuedMax = inFlightMax - this.#atOnceMax;
    this.#all = new Bottleneck({ maxConcurrent: queuedMax });
    this.#housekeeping = new Bottleneck({
      maxConcurrent: Math.min(HOUSEKEEPING_IN_FLIGHT_MAX, queuedMax),
    });
    this.#housekeeping.chain(this.#all);
  }

  /**
   * Runs the work when its turn has come. Throws ApiAway, and never runs it, when the deadline (an instant of the
   * clock, ms) comes first.
   */
  run<T>(priority: Priority, deadlineMs: number, work: () => Promise<T>): Promise<T> {
    if (priority === "add" && this.#atOnce < this.#atOnceMax) return this.#runAtOnce(work);
    const limiter = priority === "housekeeping" ? this.#housekeeping : this.#all;
    return new Promise<T>((resolve, reject) => {
      let gaveUp = false;
      const timer = this.#clock.timer(deadlineMs - this.#clock.monotonicMs(), () => {
        gaveUp = true;
        reject(new ApiAway("too many writes to the API server were waiting in front of it"));
      });
      const job = async () => {
        timer.cancel();
        // Bottleneck cannot take a job out of its queue.
        if (!gaveUp) resolve(await work());
      };
      limiter.schedule({ priority: TURNS[priority] }, job).catch(reject);
    });
  }

  async #runAtOnce<T>(work: () => Promise<T>): Promise<T> {
    this.#atOnce += 1;
    try {
      return await work();
    } finally {
      this.#atOnce -= 1;
    }
  }
}
