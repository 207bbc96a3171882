import type { Clock } from "../../platform/time.ts";
import { ApiAway, type Priority } from "../kube-api.ts";

/**
 * Writes at once. One takes the API server some 5 ms, so a healthy server has few of them at a time; a slow one never
 * has more than this from one client.
 */
const IN_FLIGHT_MAX = 32;
/** Of these at most for housekeeping: if its writes hang, ADDs and DELs still find a place. */
const HOUSEKEEPING_IN_FLIGHT_MAX = 8;

/** The most urgent first. */
const PRIORITIES: readonly Priority[] = ["add", "del", "housekeeping"];

type PerPriority<T> = Readonly<Record<Priority, T>>;

/**
 * The queue of writes, the urgent ones in front and those of one priority in the order of their arrival. Half of the places
 * are for ADDs alone. While there is room a write goes at once, and the end of one starts the next without a timer in
 * between: machines by the thousand are some ten writes each. See docs/decisions/0013.
 */
export class WriteQueue {
  readonly #clock: Clock;
  readonly #inFlightMax: number;
  /** For everything but ADDs. */
  readonly #othersMax: number;
  readonly #housekeepingMax: number;
  readonly #inFlight: Record<Priority, number> = { add: 0, del: 0, housekeeping: 0 };
  /** Each starts the work that waits. */
  readonly #waiting: PerPriority<Set<() => void>> = {
    add: new Set(),
    del: new Set(),
    housekeeping: new Set(),
  };

  constructor(clock: Clock, inFlightMax = IN_FLIGHT_MAX) {
    this.#clock = clock;
    this.#inFlightMax = inFlightMax;
    this.#othersMax = Math.ceil(inFlightMax / 2);
    this.#housekeepingMax = Math.min(HOUSEKEEPING_IN_FLIGHT_MAX, this.#othersMax);
  }

  /**
   * Runs the work when its turn has come. Throws ApiAway, and never runs it, when the deadline (an instant of the
   * clock, ms) comes first.
   */
  async run<T>(priority: Priority, deadlineMs: number, work: () => Promise<T>): Promise<T> {
    // Whoever waits finds no room either: each end starts all that there is room for.
    if (this.#hasRoom(priority)) this.#inFlight[priority] += 1;
    else await this.#turn(priority, deadlineMs);
    try {
      return await work();
    } finally {
      this.#inFlight[priority] -= 1;
      this.#startNext();
    }
  }

  /** Waits for a place, which is taken when this resolves. */
  #turn(priority: Priority, deadlineMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting[priority];
      const start = () => {
        timer.cancel();
        resolve();
      };
      const timer = this.#clock.timer(deadlineMs - this.#clock.monotonicMs(), () => {
        waiting.delete(start);
        reject(new ApiAway("too many writes to the API server were waiting in front of it"));
      });
      waiting.add(start);
    });
  }

  #startNext(): void {
    for (const priority of PRIORITIES)
      for (const start of this.#waiting[priority]) {
        if (!this.#hasRoom(priority)) break;
        this.#waiting[priority].delete(start);
        this.#inFlight[priority] += 1;
        start();
      }
  }

  #hasRoom(priority: Priority): boolean {
    const { add, del, housekeeping } = this.#inFlight;
    if (add + del + housekeeping >= this.#inFlightMax) return false;
    if (priority === "add") return true;
    if (del + housekeeping >= this.#othersMax) return false;
    return priority === "del" || housekeeping < this.#housekeepingMax;
  }
}
