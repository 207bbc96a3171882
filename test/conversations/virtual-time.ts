import type { FakeTime } from "../../kube/fake/port.ts";

interface Timer {
  readonly atMs: number;
  readonly fire: () => void;
}

/** Time that passes only when nobody can go on without it. */
export class VirtualTime implements FakeTime {
  #nowMs = 0;
  readonly #timers = new Set<Timer>();

  monotonicMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Date.UTC(2026, 0, 1) + this.#nowMs;
  }

  timer(ms: number, fire: () => void): () => void {
    const timer = { atMs: this.#nowMs + Math.max(0, ms), fire };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
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

  /** Lets time pass until something is so. Throws an Error when nothing is left that could make it so. */
  async until(isSo: () => boolean, what: string): Promise<void> {
    for (;;) {
      // Everything that can be done without time is done first.
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      if (isSo()) return;
      const next = [...this.#timers].sort((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) throw new Error(`nothing will ever bring ${what}`);
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.fire();
    }
  }
}
