import { type Clock, systemClock, type Timer } from "../../platform/time.ts";

/** A clock whose readings a test moves. Its timers and chance are the machine's. */
export class ManualClock implements Clock {
  nowMs = 1_000_000;
  wallOffsetMs = 1_700_000_000_000;

  monotonicMs(): number {
    return this.nowMs;
  }

  wallMs(): number {
    return this.nowMs + this.wallOffsetMs;
  }

  timer(ms: number, fire: () => void): Timer {
    return systemClock.timer(ms, fire);
  }

  immediate(fire: () => void): void {
    systemClock.immediate(fire);
  }

  random(): number {
    return systemClock.random();
  }

  randomBytes(count: number): Buffer {
    return systemClock.randomBytes(count);
  }
}
