import type { Pool } from "../../../ipam/space/pool.ts";
import type { Clock } from "../../../platform/time.ts";

/** After this long without use, a network is no longer watched, ms. */
const QUIET_MS_MAX = 600_000;

/** The networks whose allocations are watched: those that are nearly full, or whose hint misled an ADD. */
export class Followed {
  readonly #clock: Clock;
  readonly #watch: (network: string) => () => void;
  readonly #following = new Map<string, { end: () => void; neededMs: number }>();

  constructor(clock: Clock, watch: (network: string) => () => void) {
    this.#clock = clock;
    this.#watch = watch;
  }

  need(network: string): void {
    const neededMs = this.#clock.monotonicMs();
    const known = this.#following.get(network);
    if (known) known.neededMs = neededMs;
    else this.#following.set(network, { end: this.#watch(network), neededMs });
  }

  endQuiet(): void {
    for (const [network, { end, neededMs }] of this.#following) {
      if (this.#clock.monotonicMs() - neededMs < QUIET_MS_MAX) continue;
      end();
      this.#following.delete(network);
    }
  }

  stop(): void {
    for (const { end } of this.#following.values()) end();
    this.#following.clear();
  }
}

/** Whether so few addresses are left that several nodes are likely to try the same one. */
export function isNearlyFull(pool: Pool): boolean {
  const { free, size } = pool.counts();
  return free * 10n < size;
}
