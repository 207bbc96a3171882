import type { Story } from "../world.ts";
import { Digest } from "./digest.ts";

export interface StoryOptions {
  /** Of the world. */
  readonly nowMs: () => number;
  /** How many lines are remembered. */
  readonly keep: number;
  /** Is given every line, without the end of the line. */
  readonly onLine?: ((line: string) => void) | undefined;
  /** Whether details are told too; the digest is the same. */
  readonly isDetailed?: boolean;
}

/** Remembers the last lines, and a digest of all. */
export class KeptStory implements Story {
  readonly digest = new Digest();
  readonly #nowMs: () => number;
  readonly #keep: number;
  readonly #onLine: ((line: string) => void) | undefined;
  readonly #isDetailed: boolean;
  readonly #lines: string[] = [];
  #count = 0;

  constructor({ nowMs, keep, onLine, isDetailed = false }: StoryOptions) {
    this.#nowMs = nowMs;
    this.#keep = keep;
    this.#onLine = onLine;
    this.#isDetailed = isDetailed;
  }

  tell(who: string, what: string): void {
    const line = this.#lineOf(who, what);
    this.digest.add(line);
    this.#keepLine(line);
  }

  detail(who: string, what: () => string): void {
    if (this.#isDetailed) this.#keepLine(this.#lineOf(who, what()));
  }

  /** The last ones, oldest first. */
  get lines(): readonly string[] {
    const begin = this.#count % this.#keep;
    if (this.#count < this.#keep) return this.#lines.slice();
    return [...this.#lines.slice(begin), ...this.#lines.slice(0, begin)];
  }

  #lineOf(who: string, what: string): string {
    return `${(this.#nowMs() / 1_000).toFixed(3).padStart(11)} s  ${who}: ${what}`;
  }

  #keepLine(line: string): void {
    this.#lines[this.#count % this.#keep] = line;
    this.#count += 1;
    this.#onLine?.(line);
  }
}
