import type { Clock, Timer } from "./time.ts";

/** 2026-01-01T00:00:00Z */
const BEGIN_WALL_MS = 1_767_225_600_000;

export interface VirtualClockOptions {
  /** What its monotonic clock shows in the beginning, ms; default 0. */
  readonly originMs?: number;
  /** What its wall clock shows in the beginning, ms since the epoch. */
  readonly wallMs?: number;
  /** How much faster than the world it goes; default 1. */
  readonly rate?: number;
}

/**
 * A world's time: it passes only when nobody can go on without it, and chance is what the seed says. Any number of clocks read
 * it, each in its own way.
 */
export class VirtualTime {
  readonly #random: () => number;
  readonly #due: VirtualTimer[] = [];
  #nowMs = 0;

  constructor(seed = 1) {
    this.#random = numbersOf(seed);
  }

  /** Of the world, since it began. */
  get nowMs(): number {
    return this.#nowMs;
  }

  clock({ originMs = 0, wallMs = BEGIN_WALL_MS, rate = 1 }: VirtualClockOptions = {}): Clock {
    const beganMs = this.#nowMs;
    const passedMs = () => (this.#nowMs - beganMs) * rate;
    return {
      monotonicMs: () => originMs + passedMs(),
      wallMs: () => wallMs + passedMs(),
      timer: (ms, fire) => this.#timer(ms / rate, fire),
      immediate: (fire) => void this.#timer(0, fire),
      random: this.#random,
      randomBytes: (count) => Buffer.from(Array.from({ length: count }, () => this.#random() * 256)),
    };
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
    const untilMs = this.#nowMs + ms;
    await settled();
    while ((this.#due[0]?.atMs ?? Number.POSITIVE_INFINITY) <= untilMs) {
      this.step();
      await settled();
    }
    this.#nowMs = untilMs;
  }

  /** The next thing that is due happens. false: there is none. */
  step(): boolean {
    const next = this.#due.shift();
    if (next === undefined) return false;
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    next.fire();
    return true;
  }

  #timer(ms: number, fire: () => void): Timer {
    const timer = new VirtualTimer(
      fire,
      (one) => this.#schedule(one, ms),
      (one) => this.#drop(one),
    );
    this.#schedule(timer, ms);
    return timer;
  }

  /** By time, and those of one instant in the order in which they were asked for. */
  #schedule(timer: VirtualTimer, ms: number): void {
    this.#drop(timer);
    timer.atMs = this.#nowMs + Math.max(0, ms);
    let [low, high] = [0, this.#due.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#due[middle] as VirtualTimer).atMs <= timer.atMs) low = middle + 1;
      else high = middle;
    }
    this.#due.splice(low, 0, timer);
  }

  #drop(timer: VirtualTimer): void {
    const index = this.#due.indexOf(timer);
    if (index >= 0) this.#due.splice(index, 1);
  }
}

class VirtualTimer implements Timer {
  atMs = 0;
  readonly fire: () => void;
  readonly #schedule: (timer: VirtualTimer) => void;
  readonly #drop: (timer: VirtualTimer) => void;
  #isCancelled = false;

  constructor(
    fire: () => void,
    schedule: (timer: VirtualTimer) => void,
    drop: (timer: VirtualTimer) => void,
  ) {
    this.fire = fire;
    this.#schedule = schedule;
    this.#drop = drop;
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#drop(this);
  }

  restart(): void {
    if (!this.#isCancelled) this.#schedule(this);
  }

  unref(): this {
    return this;
  }
}

/** Everything that needs no time is done: promises, and what Node itself brings. */
function settled(): Promise<void> {
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
