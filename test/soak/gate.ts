import { pause } from "../harness/wait.ts";

/**
 * Where the actors of a run rest. `end` stops each at its next rest, with all that it has; `release` lets them go on to
 * give everything back.
 */
export class Gate {
  #isEnding = false;
  #parked = 0;
  readonly #ended = new Signal();
  readonly #released = new Signal();

  get isEnding(): boolean {
    return this.#isEnding;
  }

  /** How many actors rest at the end. */
  get parked(): number {
    return this.#parked;
  }

  async rest(ms: number): Promise<void> {
    await Promise.race([pause(ms), this.#ended.promise]);
    if (!this.#isEnding) return;
    this.#parked += 1;
    await this.#released.promise;
  }

  end(): void {
    this.#isEnding = true;
    this.#ended.give();
  }

  release(): void {
    this.#released.give();
  }
}

class Signal {
  readonly promise: Promise<void>;
  #give: () => void = () => {};

  constructor() {
    this.promise = new Promise((resolve) => {
      this.#give = resolve;
    });
  }

  give(): void {
    this.#give();
  }
}
