import type { Story } from "../world.ts";
import { Digest } from "./digest.ts";

export interface StoryOptions {
  /** Of the world. */
  readonly nowMs: () => number;
  /** How many lines are remembered. */
  readonly keep: number;
  /** Is given every line, without the end of the line. */
  readonly onLine?: ((line: string) => void) | undefined;
}

/** Remembers the last lines, and a digest of all. */
export class KeptStory implements Story {
  readonly digest = new Digest();
  readonly #nowMs: () => number;
  readonly #keep: number;
  readonly #onLine: ((line: string) => void) | undefined;
  readonly #lines: string[] = [];
  #count = 0;

  constructor({ nowMs, keep, onLine }: StoryOptions) {
    this.#nowMs = nowMs;
    this.#keep = keep;
    this.#onLine = onLine;
  }

  tell(who: string, what: string): void {
    const line = `${(this.#nowMs() / 1_000).toFixed(3).padStart(11)} s  ${who}: ${what}`;
    this.digest.add(line);
    this.#lines[this.#count % this.#keep] = line;
    this.#count += 1;
    this.#onLine?.(line);
  }

  /** The last ones, oldest first. */
  get lines(): readonly string[] {
    const begin = this.#count % this.#keep;
    if (this.#count < this.#keep) return this.#lines.slice();
    return [...this.#lines.slice(begin), ...this.#lines.slice(0, begin)];
  }
}
