import type { Clock, Timer } from "../../../platform/time.ts";
import { type Due, TimerHeap } from "./timer-heap.ts";

/** 2026-01-01T00:00:00Z */
const BEGIN_WALL_MS = 1_767_225_600_000;

/** No timer is shorter, unless it waits for nothing. */
const SHORTEST_MS = 0.01;

export interface VirtualClockOptions {
  /** What its monotonic clock and its boot clock show in the beginning, ms; default 0. */
  readonly originMs?: number;
  /** What its wall clock shows in the beginning, ms since the epoch. */
  readonly wallMs?: number;
  /** How much faster than the world it goes; default 1. */
  readonly rate?: number;
  /** Of its chance; default: one chance for all clocks of a world. */
  readonly seed?: number;
}

/** What goes on while a process, or its machine, is stopped. */
export interface Suspension {
  /** CLOCK_MONOTONIC: it does while a process is stopped, not while the machine sleeps. */
  readonly monotonicPasses: boolean;
  /** CLOCK_BOOTTIME: it does while the machine sleeps, not while a virtual machine is paused. */
  readonly bootPasses: boolean;
}

/** What the clocks of a world share. */
export class TimeLine {
  /** Since the world began. */
  nowMs = 0;
  readonly due = new TimerHeap<VirtualTimer>();
  #orders = 0;

  nextOrder(): number {
    this.#orders += 1;
    return this.#orders;
  }
}

/** One process's view of a world's time. */
export class VirtualClock implements Clock {
  readonly random: () => number;
  readonly #line: TimeLine;
  #rate: number;
  /** The moment of the world at which the clocks showed the following. */
  #anchorMs: number;
  #monotonicMs: number;
  #bootMs: number;
  #wallMs: number;
  #suspension: Suspension | null = null;
  /** Timers that wait for the end of a suspension. */
  #held: VirtualTimer[] = [];
  #isKilled = false;

  constructor(
    line: TimeLine,
    { originMs = 0, wallMs = BEGIN_WALL_MS, rate = 1 }: VirtualClockOptions,
    random: () => number,
  ) {
    this.#line = line;
    this.#rate = rate;
    this.#anchorMs = line.nowMs;
    this.#monotonicMs = originMs;
    this.#bootMs = originMs;
    this.#wallMs = wallMs;
    this.random = random;
  }

  monotonicMs(): number {
    const stands = this.#suspension !== null && !this.#suspension.monotonicPasses;
    return stands ? this.#monotonicMs : this.#monotonicMs + this.#passedMs();
  }

  /** CLOCK_BOOTTIME, ms. */
  bootMs(): number {
    const stands = this.#suspension !== null && !this.#suspension.bootPasses;
    return stands ? this.#bootMs : this.#bootMs + this.#passedMs();
  }

  wallMs(): number {
    return this.#wallMs + this.#passedMs();
  }

  timer(ms: number, fire: () => void): Timer {
    const timer = new VirtualTimer(this, ms, fire);
    this.start(timer);
    return timer;
  }

  immediate(fire: () => void): void {
    this.start(new VirtualTimer(this, 0, fire));
  }

  randomBytes(count: number): Buffer {
    const bytes = Buffer.allocUnsafe(count);
    for (let i = 0; i < count; i += 1) bytes[i] = this.random() * 256;
    return bytes;
  }

  /** Its process or machine is stopped: no timer fires. Messages to it are for others to hold back. */
  suspend(suspension: Suspension): void {
    if (this.#isKilled || this.#suspension !== null) return;
    this.#anchor();
    this.#suspension = suspension;
    this.#held = this.#line.due.removeAll((timer) => timer.clock === this);
  }

  /** Timers whose time came meanwhile fire now, the others when the rest of their time has passed. */
  resume(): void {
    if (this.#suspension === null) return;
    this.#anchor();
    this.#suspension = null;
    for (const timer of this.#held.splice(0)) this.#enter(timer);
  }

  get isSuspended(): boolean {
    return this.#suspension !== null;
  }

  /** Its process is gone: no timer of it fires ever again. */
  kill(): void {
    this.#isKilled = true;
    this.#held = [];
    this.#line.due.removeAll((timer) => timer.clock === this);
  }

  get isKilled(): boolean {
    return this.#isKilled;
  }

  /** Somebody sets the wall clock. */
  jumpWall(byMs: number): void {
    this.#wallMs += byMs;
  }

  /** How much faster than the world it goes from now on. */
  setRate(rate: number): void {
    this.#anchor();
    this.#rate = rate;
    for (const timer of this.#line.due.removeAll((one) => one.clock === this)) this.#enter(timer);
  }

  /** For timers of this clock. */
  start(timer: VirtualTimer): void {
    if (this.#isKilled) return;
    timer.order = this.#line.nextOrder();
    // Whoever waits for the rest of a time must get there: a billionth of a millisecond would not move the world's
    // clock.
    const ms = timer.ms > 0 ? Math.max(timer.ms, SHORTEST_MS) : 0;
    timer.dueMs = this.monotonicMs() + ms;
    if (this.#suspension !== null) this.#held.push(timer);
    else this.#line.due.push(timer.at(this.#line.nowMs + ms / this.#rate));
  }

  /** For timers of this clock. */
  stop(timer: VirtualTimer): void {
    this.#line.due.remove(timer);
    if (this.#held.length > 0) this.#held = this.#held.filter((one) => one !== timer);
  }

  #passedMs(): number {
    return (this.#line.nowMs - this.#anchorMs) * this.#rate;
  }

  #anchor(): void {
    const [monotonicMs, bootMs, wallMs] = [this.monotonicMs(), this.bootMs(), this.wallMs()];
    this.#monotonicMs = monotonicMs;
    this.#bootMs = bootMs;
    this.#wallMs = wallMs;
    this.#anchorMs = this.#line.nowMs;
  }

  /** By what it has still to wait. */
  #enter(timer: VirtualTimer): void {
    this.#line.due.push(timer.at(this.#anchorMs + (timer.dueMs - this.#monotonicMs) / this.#rate));
  }
}

/** A timer of a VirtualClock. */
export class VirtualTimer implements Timer, Due {
  readonly clock: VirtualClock;
  readonly ms: number;
  readonly fire: () => void;
  /** Of the world. */
  atMs = 0;
  /** Of its clock. */
  dueMs = 0;
  order = 0;
  index = -1;
  #isCancelled = false;

  constructor(clock: VirtualClock, ms: number, fire: () => void) {
    this.clock = clock;
    this.ms = ms;
    this.fire = fire;
  }

  at(ms: number): this {
    this.atMs = ms;
    return this;
  }

  cancel(): void {
    this.#isCancelled = true;
    this.clock.stop(this);
  }

  restart(): void {
    if (this.#isCancelled) return;
    this.clock.stop(this);
    this.clock.start(this);
  }

  unref(): this {
    return this;
  }
}
