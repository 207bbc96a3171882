import Bottleneck from "bottleneck";
import type { Clock } from "../../platform/time.ts";
import { ApiAway, type Priority } from "../kube-api.ts";

/** Writes at once: each takes a healthy server some 5 ms; a slow one never has more of them from one client. */
const IN_FLIGHT_MAX = 32;
/** Shares of the places in which writes go at once. If those of housekeeping hang, ADDs and DELs still find a place. */
const AT_ONCE_SHARES: Readonly<Record<Priority, number>> = { add: 1 / 2, del: 1 / 8, housekeeping: 1 / 4 };
/** Of the other places at most for housekeeping. */
const QUEUED_HOUSEKEEPING_SHARE = 1 / 2;

/** Priorities of Bottleneck: 0 is the most urgent. */
const TURNS: Readonly<Record<Priority, number>> = { add: 1, del: 4, housekeeping: 7 };

/**
 * The queue of writes, the urgent ones in front. It holds no timer, so it keeps no process alive.
 *
 * A write goes at once while its priority has room: Bottleneck takes 3.5 ms to start a job, and 5.8 ms for one of
 * housekeeping, as long as the write itself. Its queue is used only under load. See docs/decisions/0013.
 */
export class WriteQueue {
  readonly #clock: Clock;
  readonly #atOnceMax: Readonly<Record<Priority, number>>;
  readonly #atOnce: Record<Priority, number> = { add: 0, del: 0, housekeeping: 0 };
  readonly #all: Bottleneck;
  readonly #housekeeping: Bottleneck;

  constructor(clock: Clock, inFlightMax = IN_FLIGHT_MAX) {
    this.#clock = clock;
    const placesFor = (priority: Priority) => Math.floor(inFlightMax * AT_ONCE_SHARES[priority]);
    this.#atOnceMax = {
      add: placesFor("add"),
      del: placesFor("del"),
      housekeeping: placesFor("housekeeping"),
    };
    const { add, del, housekeeping } = this.#atOnceMax;
    const queuedMax = inFlightMax - add - del - housekeeping;
    this.#all = new Bottleneck({ maxConcurrent: queuedMax });
    this.#housekeeping = new Bottleneck({
      maxConcurrent: Math.ceil(queuedMax * QUEUED_HOUSEKEEPING_SHARE),
    });
    this.#housekeeping.chain(this.#all);
  }

  /** Runs the work in its turn. Throws ApiAway, and never runs it, when the deadline (clock's ms) comes first. */
  run<T>(priority: Priority, deadlineMs: number, work: () => Promise<T>): Promise<T> {
    if (this.#atOnce[priority] < this.#atOnceMax[priority]) return this.#runAtOnce(priority, work);
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

  async #runAtOnce<T>(priority: Priority, work: () => Promise<T>): Promise<T> {
    this.#atOnce[priority] += 1;
    try {
      return await work();
    } finally {
      this.#atOnce[priority] -= 1;
    }
  }
}
