import { TimeLine, VirtualClock, type VirtualClockOptions } from "./virtual/virtual-clock.ts";

/**
 * A world's time: it passes only when nobody can go on without it, and chance is what the seed says. Any number of
 * clocks read it, each in its own way.
 */
export class VirtualTime {
  readonly #random: () => number;
  readonly #line = new TimeLine();

  constructor(seed = 1) {
    this.#random = numbersOf(seed);
  }

  /** Of the world, since it began. */
  get nowMs(): number {
    return this.#line.nowMs;
  }

  clock(options: VirtualClockOptions = {}): VirtualClock {
    return new VirtualClock(this.#line, options, options.seed === undefined ? this.#random : numbersOf(options.seed));
  }

  /** What the work becomes. */
  async run<T>(work: Promise<T>): Promise<T> {
    let isSettled = false;
    const settle = () => {
      isSettled = true;
    };
    work.then(settle, settle);
    await this.until(() => isSettled, "the work");
    return work;
  }

  /** Lets time pass until the condition holds. Throws an Error when nothing is left that could make it so. */
  async until(holds: () => boolean, what: string): Promise<void> {
    for (;;) {
      await settled();
      if (holds()) return;
      if (!this.step()) throw new Error(`nothing will ever bring ${what}`);
    }
  }

  /** Lets so much time pass, ms, with everything that is due in it. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#line.nowMs + ms;
    await settled();
    while ((this.#line.due.first?.atMs ?? Number.POSITIVE_INFINITY) <= untilMs) {
      this.step();
      await settled();
    }
    this.#line.nowMs = untilMs;
  }

  /** The next thing that is due happens. false: there is none. */
  step(): boolean {
    const next = this.#line.due.shift();
    if (next === undefined) return false;
    this.#line.nowMs = Math.max(this.#line.nowMs, next.atMs);
    next.fire();
    return true;
  }
}

/** Everything that needs no time is done: promises, and what Node itself brings. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
function numbersOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
