import { statSync } from "node:fs";
import { readBounded, SMALL_FILE_BYTES_MAX } from "./files.ts";
import { type Clock, interval, type Timer } from "./time.ts";

/** How often a file is looked at, ms. */
const LOOK_INTERVAL_MS = 1_000;

interface Watcher {
  /** The file is there again, or has changed: what it says counts from now on. */
  changed(): void;
  /** What it says cannot be used; what it said before still counts. Once for each state of the file. */
  unusable(problem: string): void;
}

/** Read again when a file changes, by time: Kubernetes exchanges mounts behind links, which no watch of a file sees. */
export class WatchedFile<T> {
  readonly path: string;
  readonly #clock: Clock;
  readonly #parse: (content: Buffer, mode: number) => T;
  #value: T;
  #seen: string;
  #timer: Timer | null = null;

  /** Throws what reading or `parse` throws. */
  constructor(clock: Clock, path: string, parse: (content: Buffer, mode: number) => T) {
    this.#clock = clock;
    this.path = path;
    this.#parse = parse;
    // The state first: a change during the reading is seen as one afterwards.
    this.#seen = stateOf(path);
    this.#value = parse(readBounded(path, SMALL_FILE_BYTES_MAX), statSync(path).mode);
  }

  get value(): T {
    return this.#value;
  }

  watch(watcher: Watcher): void {
    this.#timer = interval(this.#clock, LOOK_INTERVAL_MS, () => this.#poll(watcher)).unref();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #poll(watcher: Watcher): void {
    const state = stateOf(this.path);
    if (state === this.#seen) return;
    this.#seen = state;
    try {
      this.#value = this.#parse(readBounded(this.path, SMALL_FILE_BYTES_MAX), statSync(this.path).mode);
    } catch (error) {
      watcher.unusable((error as Error).message);
      return;
    }
    watcher.changed();
  }
}

/** Never throws: whatever becomes of the file and its directory, the server goes on with what it has. */
function stateOf(path: string): string {
  try {
    const found = statSync(path, { bigint: true });
    return `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "unknown";
  }
}
