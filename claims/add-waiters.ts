import type { Clock } from "../platform/time.ts";

/** ADDs that may wait at once; the runtime retries anyway, so more would only cost memory. */
const WAITING_MAX = 1_000;

/** Why a wait ended: something happened to one of its keys, the time is over, too many wait, or the daemon ends. */
export type Woken = "woken" | "deadline" | "full" | "closed";

/** ADDs that wait for what comes: a claim, or the daemon's own readiness. They hold nothing while they wait. */
export class AddWaiters {
  readonly #clock: Clock;
  readonly #byKey = new Map<string, Set<() => void>>();
  #count = 0;
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get count(): number {
    return this.#count;
  }

  /**
   * Listens for any of the keys from now on, so that an event between a read and the wait is not missed. `wait`
   * resolves at the first event since `enter`; `leave` must be called in the end.
   */
  enter(keys: readonly string[]): { wait(timeoutMs: number): Promise<Woken>; leave(): void } {
    let woken = false;
    let ring: () => void = () => {};
    const wake = () => {
      woken = true;
      ring();
    };
    for (const key of keys) {
      const listeners = this.#byKey.get(key) ?? new Set();
      listeners.add(wake);
      this.#byKey.set(key, listeners);
    }
    return {
      wait: async (timeoutMs) => {
        if (this.#closed) return "closed";
        if (woken) {
          woken = false;
          return "woken";
        }
        if (this.#count >= WAITING_MAX) return "full";
        this.#count += 1;
        const result = await new Promise<Woken>((resolve) => {
          const timer = this.#clock.timer(timeoutMs, () => resolve("deadline"));
          ring = () => {
            timer.cancel();
            resolve(this.#closed ? "closed" : "woken");
          };
        });
        this.#count -= 1;
        woken = false;
        return result;
      },
      leave: () => {
        for (const key of keys) {
          const listeners = this.#byKey.get(key);
          listeners?.delete(wake);
          if (listeners?.size === 0) this.#byKey.delete(key);
        }
      },
    };
  }

  wake(key: string): void {
    for (const listener of [...(this.#byKey.get(key) ?? [])]) listener();
  }

  /** The daemon ends: releases all waiters, and new ones do not wait. */
  close(): void {
    this.#closed = true;
    for (const key of [...this.#byKey.keys()]) this.wake(key);
  }
}

export function claimKey(claim: { readonly namespace: string; readonly name: string }): string {
  return `claim ${claim.namespace}/${claim.name}`;
}

export function containerKey(containerId: string, interfaceName: string): string {
  return `container ${containerId}/${interfaceName}`;
}
