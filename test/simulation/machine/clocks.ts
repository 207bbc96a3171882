import type { Clock, Timer } from "../../../platform/time.ts";

/** What floating point makes of a sum of times, ms. */
const EARLY_MS_MAX = 0.001;

/**
 * A machine's clocks over the world's: they stand still while it is suspended, all but the boot clock; the wall clock
 * also jumps.
 */
export class MachineClock {
  readonly #world: Clock;
  readonly #beganMs: number;
  #suspendedMs = 0;
  #suspendedSinceMs: number | null = null;
  #jumpedMs = 0;
  #lastBootUs = 0;
  /** Those that live, each of which stands still while the machine is suspended. */
  readonly processes = new Set<ProcessClock>();

  /** `world`: a clock that goes at the machine's own rate; it counts from this boot. */
  constructor(world: Clock) {
    this.#world = world;
    this.#beganMs = world.monotonicMs();
  }

  get isSuspended(): boolean {
    return this.#suspendedSinceMs !== null;
  }

  /** CLOCK_MONOTONIC. */
  monotonicMs(): number {
    const nowMs = this.#suspendedSinceMs ?? this.#world.monotonicMs();
    return nowMs - this.#beganMs - this.#suspendedMs;
  }

  wallMs(): number {
    return Math.floor(this.#world.wallMs() + this.#jumpedMs);
  }

  /** CLOCK_BOOTTIME. No two processes begin at the same microsecond. */
  bootUs(): number {
    this.#lastBootUs = Math.max(this.#lastBootUs + 1, Math.floor((this.#world.monotonicMs() - this.#beganMs) * 1_000));
    return this.#lastBootUs;
  }

  timer(ms: number, fire: () => void): Timer {
    return this.#world.timer(ms, fire);
  }

  random(): number {
    return this.#world.random();
  }

  randomBytes(count: number): Buffer {
    return this.#world.randomBytes(count);
  }

  suspend(): void {
    this.#suspendedSinceMs ??= this.#world.monotonicMs();
  }

  resume(): void {
    if (this.#suspendedSinceMs === null) return;
    this.#suspendedMs += this.#world.monotonicMs() - this.#suspendedSinceMs;
    this.#suspendedSinceMs = null;
    for (const process of this.processes) process.fireLate();
  }

  jump(ms: number): void {
    this.#jumpedMs += ms;
  }
}

/**
 * The time of one process of a machine. Nothing that it waits for comes while it is stopped (SIGSTOP) or its machine
 * suspended, and nothing at all once it is killed.
 */
export class ProcessClock implements Clock {
  readonly #machine: MachineClock;
  readonly #timers = new Set<ProcessTimer>();
  /** What became due while it stood still, in order. */
  #late: ProcessTimer[] = [];
  #isStopped = false;
  #isDead = false;

  constructor(machine: MachineClock) {
    this.#machine = machine;
    machine.processes.add(this);
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  monotonicMs(): number {
    return this.#machine.monotonicMs();
  }

  wallMs(): number {
    return this.#machine.wallMs();
  }

  timer(ms: number, fire: () => void): Timer {
    return new ProcessTimer(this, ms, fire);
  }

  immediate(fire: () => void): void {
    this.timer(0, fire);
  }

  random(): number {
    return this.#machine.random();
  }

  randomBytes(count: number): Buffer {
    return this.#machine.randomBytes(count);
  }

  stop(): void {
    this.#isStopped = true;
  }

  continue(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    this.fireLate();
  }

  /** What became due meanwhile comes, if it goes on now. */
  fireLate(): void {
    if (this.#standsStill) return;
    const late = this.#late;
    this.#late = [];
    for (const timer of late) timer.scheduleRest();
  }

  kill(): void {
    this.#isDead = true;
    this.#machine.processes.delete(this);
    for (const timer of this.#timers) timer.drop();
    this.#timers.clear();
    this.#late = [];
  }

  /** Of its timers only. */
  schedule(timer: ProcessTimer, ms: number): Timer | null {
    if (this.#isDead) return null;
    this.#timers.add(timer);
    return this.#machine.timer(ms, () => this.#due(timer));
  }

  /** Of its timers only. */
  forget(timer: ProcessTimer): void {
    this.#timers.delete(timer);
    if (this.#late.length > 0) this.#late = this.#late.filter((one) => one !== timer);
  }

  get #standsStill(): boolean {
    return this.#isStopped || this.#machine.isSuspended;
  }

  #due(timer: ProcessTimer): void {
    if (this.#standsStill) {
      this.#late.push(timer);
      return;
    }
    // The machine was suspended meanwhile: its monotonic clock is not there yet.
    if (timer.dueMs - this.monotonicMs() > EARLY_MS_MAX) {
      timer.scheduleRest();
      return;
    }
    this.#timers.delete(timer);
    timer.fire();
  }
}

class ProcessTimer implements Timer {
  readonly fire: () => void;
  readonly #clock: ProcessClock;
  readonly #ms: number;
  /** Of the monotonic clock. */
  dueMs = 0;
  #under: Timer | null = null;
  #isCancelled = false;

  constructor(clock: ProcessClock, ms: number, fire: () => void) {
    this.#clock = clock;
    this.#ms = Math.max(0, ms);
    this.fire = fire;
    this.#schedule();
  }

  scheduleRest(): void {
    this.drop();
    this.#under = this.#clock.schedule(this, this.dueMs - this.#clock.monotonicMs());
  }

  drop(): void {
    this.#under?.cancel();
    this.#under = null;
  }

  cancel(): void {
    this.#isCancelled = true;
    this.drop();
    this.#clock.forget(this);
  }

  restart(): void {
    if (this.#isCancelled) return;
    this.#clock.forget(this);
    this.#schedule();
  }

  unref(): this {
    return this;
  }

  #schedule(): void {
    this.drop();
    this.dueMs = this.#clock.monotonicMs() + this.#ms;
    this.#under = this.#clock.schedule(this, this.#ms);
  }
}
