import { Buffer } from "node:buffer";
import type { Clock } from "../../platform/time.ts";

/** For a guest's own pool of randomness; of Nova's size. */
const SEED_BYTES = 512;
/** Drawn at once: that costs hardly more than one. */
const SEEDS_DRAWN = 32;

/** Random bytes for guests. None is given twice. */
export class Seeds {
  readonly #clock: Pick<Clock, "randomBytes">;
  #drawn: Buffer = Buffer.alloc(0);
  #used = 0;

  constructor(clock: Pick<Clock, "randomBytes">) {
    this.#clock = clock;
  }

  next(): Buffer {
    if (this.#used === this.#drawn.length) {
      this.#drawn = this.#clock.randomBytes(SEEDS_DRAWN * SEED_BYTES);
      this.#used = 0;
    }
    const start = this.#used;
    this.#used += SEED_BYTES;
    return this.#drawn.subarray(start, this.#used);
  }
}
